"""What a client's own agent gets of the provider's answers."""

import json
from typing import Any

import pytest

from app.gateway.client.answer import PassedAnswer

UPSTREAM = [
    (b"Content-Type", b"application/json"),
    (b"request-id", b"req_1"),
    (b"retry-after", b"7"),
    (b"x-should-retry", b"true"),
    (b"anthropic-organization-id", b"org-of-the-operator"),
    (b"anthropic-ratelimit-tokens-remaining", b"12"),
    (b"set-cookie", b"a=b"),
    (b"via", b"10.0.0.1"),
]


class Received:
    """What a client gets."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    async def take(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        self.body += message.get("body", b"")


async def answered(status: int, body: bytes) -> Received:
    received = Received()
    answer = PassedAnswer(received.take)  # type: ignore[arg-type]
    await answer.send({"type": "http.response.start", "status": status, "headers": UPSTREAM})
    await answer.send({"type": "http.response.body", "body": body, "more_body": True})
    assert answer.is_sent == (status < 400)
    await answer.send({"type": "http.response.body", "body": b""})
    assert answer.is_sent
    return received


def an_error(kind: str, message: str, **details: Any) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message, **details}}).encode()


async def test_an_answer_passes_as_it_is_without_what_is_about_the_operator() -> None:
    received = await answered(200, b" {odd} ")

    assert received.body == b" {odd} "
    assert set(received.headers) == {b"Content-Type", b"request-id", b"retry-after", b"x-should-retry"}


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_what_is_wrong_with_a_request_is_said_in_the_providers_words(status: int) -> None:
    body = an_error("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum")

    received = await answered(status, body)

    assert (received.status, received.body) == (status, body)


@pytest.mark.parametrize(
    ("status", "kind", "shown"),
    [
        (429, "rate_limit_error", "the provider's rate limit is reached"),
        (529, "overloaded_error", "the provider is overloaded"),
        (504, "timeout_error", "the provider took too long"),
        (500, "api_error", "the provider could not answer"),
        (503, "a_new_error", "the provider could not answer"),
    ],
)
async def test_other_failures_keep_their_status_and_type(status: int, kind: str, shown: str) -> None:
    received = await answered(status, an_error(kind, "organization 7f3a has used its 50,000 tokens"))

    assert received.status == status
    assert json.loads(received.body)["error"] == {"type": kind, "message": shown}
    assert received.headers[b"retry-after"] == b"7"
    assert received.headers[b"request-id"] == b"req_1"


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit_error"), (529, "overloaded_error"), (502, "api_error")]
)
async def test_a_failure_that_is_no_json_has_the_usual_type(status: int, kind: str) -> None:
    received = await answered(status, b"<html>proxy.internal</html>")

    assert json.loads(received.body)["error"]["type"] == kind
    assert b"proxy.internal" not in received.body


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, an_error("authentication_error", "invalid x-api-key sk-1")),
        (402, an_error("billing_error", "pay")),
        (403, an_error("permission_error", "your organization may not")),
        (400, an_error("invalid_request_error", "Your credit balance is too low to access the API")),
        (400, an_error("invalid_request_error", "no", details={"error_code": "organization_on_hold"})),
    ],
)
async def test_what_concerns_the_operators_key_is_not_about_the_clients(status: int, body: bytes) -> None:
    received = await answered(status, body)

    assert received.status == 502
    assert json.loads(received.body)["error"] == {
        "type": "api_error",
        "message": "the provider refuses this server's operator",
    }
    assert received.headers[b"x-should-retry"] == b"false"
