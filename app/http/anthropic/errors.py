"""The form of the Messages API around our routes: where a key may stand, and errors."""

import json
from typing import Any, Final, Literal

from pydantic import BaseModel

from app.http.middleware import Message, Middleware, Receive, Scope, Send
from app.http.problems import MEDIA_TYPE

PATH: Final = "/anthropic/v1"

_UNPROCESSABLE, _BAD_REQUEST, _SERVER_ERROR = 422, 400, 500
_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}
_STATUSES: Final = {"unknown_model": 404, "model_not_priced": 404}
"""By code: those that its clients expect."""


class ErrorDetails(BaseModel):
    """What went wrong."""

    type: str
    message: str


class AnthropicError(BaseModel):
    """An error."""

    type: Literal["error"]
    error: ErrorDetails


class AnthropicWire(Middleware):
    """Reads the key where clients of the Messages API send it, and rewrites problem documents for them."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["path"].startswith(f"{PATH}/"):
            scope["headers"] = _with_bearer(scope["headers"])
            send = _Rewriting(send).send
        await self.app(scope, receive, send)


class _Rewriting:
    """Sends one response; a problem document in the form of the Messages API."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        """Send a part of it."""
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                start, body = _rewritten(self._start, json.loads(self._body))
                await self._send(start)
                await self._send({"type": "http.response.body", "body": body})


def _with_bearer(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers with the key of `x-api-key` as a bearer, unless there is one."""
    named = dict(headers)
    if b"authorization" in named or b"x-api-key" not in named:
        return headers
    return [*headers, (b"authorization", b"Bearer " + named[b"x-api-key"])]


def _is_problem(start: Message) -> bool:
    return (b"content-type", MEDIA_TYPE.encode()) in start.get("headers", [])


def _rewritten(start: Message, problem: dict[str, Any]) -> tuple[Message, bytes]:
    status = _STATUSES.get(problem["code"], problem["status"])
    status = _BAD_REQUEST if status == _UNPROCESSABLE else status
    kind = _TYPES.get(status, "api_error" if status >= _SERVER_ERROR else "invalid_request_error")
    error = {"type": "error", "error": {"type": kind, "message": problem["detail"]}}
    body = json.dumps(error).encode()
    replaced = {b"content-type": b"application/json", b"content-length": str(len(body)).encode()}
    headers = [(name, replaced.get(name, value)) for name, value in start["headers"]]
    return {**start, "status": status, "headers": headers}, body
