import json
from typing import Any

import pytest

from app import errors
from app.http.problems import error_response


def document(error: errors.AppError) -> dict[str, Any]:
    response = error_response(error)
    assert response.headers["content-type"] == "application/problem+json"
    shown: dict[str, Any] = json.loads(bytes(response.body))
    assert shown["status"] == response.status_code
    return shown


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.AppError(), 500, "internal"),
        (errors.Unauthenticated(), 401, "unauthenticated"),
        (errors.PaymentRequired(), 402, "insufficient_credits"),
        (errors.Forbidden(), 403, "forbidden"),
        (errors.NotFound(), 404, "not_found"),
        (errors.Conflict(), 409, "conflict"),
        (errors.TooLarge(), 413, "payload_too_large"),
        (errors.TooMany(), 429, "rate_limit"),
        (errors.InvalidOutput(), 502, "invalid_output"),
        (errors.Unavailable(), 503, "unavailable"),
        (errors.TimedOut(), 504, "timeout"),
    ],
)
def test_every_kind_has_its_status_and_code(error: errors.AppError, status: int, code: str) -> None:
    shown = document(error)

    assert set(shown) == {"type", "title", "status", "detail", "code"}
    assert (shown["status"], shown["code"]) == (status, code)
    assert shown["type"] == f"urn:runtally:problem:{code}"
    assert shown["detail"] == (type(error).__doc__ or "").strip()


def test_invalid_fields_are_listed() -> None:
    shown = document(
        errors.Invalid(
            "two things", errors=[errors.FieldError("a", "is b"), errors.FieldError("c.0", "is d")]
        )
    )

    assert shown["status"] == 422
    assert shown["errors"] == [{"field": "a", "message": "is b"}, {"field": "c.0", "message": "is d"}]


def test_a_401_names_the_authentication_scheme() -> None:
    assert error_response(errors.Unauthenticated()).headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("error", [errors.TooMany(), errors.Unavailable()])
def test_transient_errors_have_retry_after(error: errors.AppError) -> None:
    assert error_response(error).headers["retry-after"] == "5"
    assert error_response(type(error)(retry_after_s=30)).headers["retry-after"] == "30"
    assert "retry-after" not in error_response(errors.NotFound()).headers


def test_the_error_of_a_run_has_its_id() -> None:
    assert document(errors.TimedOut(run_id="run-1"))["runId"] == "run-1"
    assert "runId" not in document(errors.TimedOut())
