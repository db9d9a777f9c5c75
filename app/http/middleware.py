"""What happens to every request: an id, and a limit on the body. Plain ASGI, so streams stay streams."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import structlog

from app.errors import TooLarge
from app.http.problems import of_error
from app.ids import new_uuid

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID = "request_id"
_HEADER = b"x-request-id"
_ACCEPTABLE_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class RequestIds:
    """Takes `X-Request-ID` or makes one; it is in every log line, answer and receipt."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(_HEADER, b"")
        known = given if _ACCEPTABLE_ID.fullmatch(given) else str(new_uuid()).encode()
        request_id = known.decode()
        scope.setdefault("state", {})[REQUEST_ID] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (_HEADER, known)]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(scope, receive, send_with_id)


class BodyLimit:
    """Refuses a body above the limit, announced or not, before it is held in memory."""

    def __init__(self, app: AsgiApp, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        within = not announced.isdigit() or int(announced) <= self._max_bytes
        body = await self._read(receive) if within else None
        if body is None:
            await of_error(self._too_large())(scope, receive, send)
            return

        async def receive_read() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message = {"type": "http.request", "body": body, "more_body": False}
            body = None
            return message

        await self._app(scope, receive_read, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None as soon as it is too large."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._max_bytes:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The request body is larger than {self._max_bytes} bytes.")
