"""PassedAnswer: what a client's own agent gets of a response; nothing that is about our operator."""

import json
import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from app.gateway.error_responses import PROVIDER_REFUSES, ErrorResponse, send_error
from app.gateway.provider_refusals import refusal_code
from app.platform.server.loopback import Send
from app.usage.provider import object_of

_PASSED: Final = frozenset(
    {b"content-type", b"content-length", b"request-id", b"retry-after", b"retry-after-ms", b"x-should-retry"}
)
"""Other headers name the operator's organization, or say how much of its limits is used."""

_ERROR: Final = 400
_OF_KEY: Final = frozenset({401, 402, 403})
"""The provider's answers about the key, which is the operator's; the client would take it for its own."""
_OF_REQUEST: Final = frozenset({400, 404, 413, 422})
"""What the provider says of a request; agents read it, for example to shorten a prompt that is too long."""
_TYPE: Final = re.compile("[a-z_]{1,60}")
_TYPES: Final[Mapping[int, str]] = {429: "rate_limit_error", 529: "overloaded_error"}
_SENTENCES: Final[Mapping[str, str]] = {
    "rate_limit_error": "the provider's rate limit is reached",
    "overloaded_error": "the provider is overloaded",
    "timeout_error": "the provider took too long",
}
_FAILED: Final = "the provider could not answer"


class PassedAnswer:
    """Passes an answer on: messages as they are, and errors with their status and type."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._failed: MutableMapping[str, Any] | None = None
        """The beginning of an error, until its body is known."""
        self._body = bytearray()
        self.is_sent = False
        """Whether the client has got a part of it."""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of it."""
        if message["type"] == "http.response.start":
            passed = [(name, value) for name, value in message["headers"] if name.lower() in _PASSED]
            message = {**message, "headers": passed}
            if message["status"] >= _ERROR:
                self._failed = message
                return
        if self._failed is None:
            self.is_sent = True
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            await self._send_error(self._failed, bytes(self._body))

    async def _send_error(self, start: MutableMapping[str, Any], body: bytes) -> None:
        status, self.is_sent = start["status"], True
        if status in _OF_KEY or refusal_code(status, body) is not None:
            await send_error(self._send, PROVIDER_REFUSES)
            return
        if status in _OF_REQUEST:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})
            return
        kept = [(name, value) for name, value in start["headers"] if not name.startswith(b"content-")]
        kind = _type_of(status, body)
        error = ErrorResponse(status, kind, _SENTENCES.get(kind, _FAILED), retryable=True)
        await send_error(self._send, error, headers=kept)


def _type_of(status: int, body: bytes) -> str:
    try:
        kind = object_of(object_of(json.loads(body)).get("error")).get("type")
    except (ValueError, RecursionError):
        kind = None
    if isinstance(kind, str) and _TYPE.fullmatch(kind):
        return kind
    return _TYPES.get(status, "api_error")
