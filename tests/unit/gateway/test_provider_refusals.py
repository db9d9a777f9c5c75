import json
from typing import Any, get_args

import pytest
from anthropic.types.shared.error_details import ErrorDetails
from structlog.testing import capture_logs

from app.gateway.provider_refusals import OF_REQUESTS, ProviderRefusals, refusal_code

KNOWN = {
    get_args(kind.model_fields["error_code"].annotation)[0] for kind in get_args(get_args(ErrorDetails)[0])
}
"""Every code of the official client."""


def an_error(code: Any = None, message: str = "refused") -> bytes:
    details = {} if code is None else {"details": {"error_code": code}}
    return json.dumps({"type": "error", "error": {"type": "x", "message": message, **details}}).encode()


@pytest.mark.parametrize("code", sorted(KNOWN))
def test_a_code_is_about_the_operator_unless_it_is_about_a_request(code: str) -> None:
    assert refusal_code(400, an_error(code)) == (None if code in OF_REQUESTS else code)


def test_the_official_client_knows_every_code_about_requests() -> None:
    assert KNOWN >= OF_REQUESTS
    assert {"claude_code_version_too_old", "organization_on_hold", "region_not_supported"} <= KNOWN


@pytest.mark.parametrize("status", [408, 409, 413, 429, 500, 529])
def test_what_passes_with_time_or_size_refuses_nobody(status: int) -> None:
    assert refusal_code(status, an_error("ramp_limit_exceeded")) is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Your credit balance is too low to access the Anthropic API.", "credit_balance_too_low"),
        ("This organization has been disabled.", "organization_disabled"),
        ("You have reached your specified API usage limits.", "usage_limit_reached"),
        ("prompt is too long: 9 tokens > 8 maximum", None),
    ],
)
def test_older_errors_have_no_code(message: str, code: str | None) -> None:
    assert refusal_code(400, an_error(message=message)) == code


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"error": []}', b'{"error": {"details": []}}'),
        *(an_error(7), an_error("Has Spaces"), an_error("x" * 65), an_error("\n" + "x" * 9)),
    ],
)
def test_what_cannot_be_read_is_no_refusal(body: bytes) -> None:
    assert refusal_code(400, body) is None


def test_each_model_has_one_line_when_it_is_refused_and_one_when_it_is_not() -> None:
    refusals = ProviderRefusals()

    with capture_logs() as lines:
        for _ in range(3):
            refusals.refused("a", "organization_on_hold")
        refusals.refused("b", "claude_code_version_too_old")
        assert refusals.by_model == {"a": "organization_on_hold", "b": "claude_code_version_too_old"}
        for _ in range(2):
            refusals.accepted("a")

    assert refusals.by_model == {"b": "claude_code_version_too_old"}
    assert [(line["event"], line.get("model")) for line in lines] == [
        ("gateway.provider_refuses", "a"),
        ("gateway.provider_refuses", "b"),
        ("gateway.provider_accepts", None),
    ]
