import json
from typing import Any

import pytest

from app.errors import (
    AppError,
    Conflict,
    FieldError,
    Forbidden,
    Invalid,
    InvalidOutput,
    NotFound,
    PaymentRequired,
    TimedOut,
    TooLarge,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from app.http.problems import error_response


def document(error: AppError) -> dict[str, Any]:
    response = error_response(error)
    assert response.headers["content-type"] == "application/problem+json"
    shown: dict[str, Any] = json.loads(bytes(response.body))
    assert shown["status"] == response.status_code
    return shown


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (AppError(), 500, "internal"),
        (Unauthenticated(), 401, "unauthenticated"),
        (PaymentRequired(), 402, "insufficient_credits"),
        (Forbidden(), 403, "forbidden"),
        (NotFound(), 404, "not_found"),
        (Conflict(), 409, "conflict"),
        (TooLarge(), 413, "payload_too_large"),
        (TooMany(), 429, "rate_limit"),
        (InvalidOutput(), 502, "invalid_output"),
        (Unavailable(), 503, "unavailable"),
        (TimedOut(), 504, "timeout"),
    ],
)
def test_every_kind_has_its_status_and_code(error: AppError, status: int, code: str) -> None:
    shown = document(error)

    assert set(shown) == {"type", "title", "status", "detail", "code"}
    assert (shown["status"], shown["code"]) == (status, code)
    assert shown["type"] == f"urn:runtally:problem:{code}"
    assert shown["detail"] == (type(error).__doc__ or "").strip()


def test_invalid_fields_are_listed() -> None:
    shown = document(Invalid("two things", errors=[FieldError("a", "is b"), FieldError("c.0", "is d")]))

    assert shown["status"] == 422
    assert shown["errors"] == [
        {"field": "a", "message": "is b"},
        {"field": "c.0", "message": "is d"},
    ]


def test_a_401_names_the_authentication_scheme() -> None:
    assert error_response(Unauthenticated()).headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("error", [TooMany(), Unavailable()])
def test_transient_errors_have_retry_after(error: AppError) -> None:
    assert error_response(error).headers["retry-after"] == "5"
    assert error_response(type(error)(retry_after_s=30)).headers["retry-after"] == "30"
    assert "retry-after" not in error_response(NotFound()).headers


def test_the_error_of_a_run_has_its_id() -> None:
    assert document(TimedOut(run_id="run-1"))["runId"] == "run-1"
    assert "runId" not in document(TimedOut())
