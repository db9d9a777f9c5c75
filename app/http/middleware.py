"""What happens to every request, whatever its route. Plain ASGI, so streams stay streams."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

import structlog

from app.errors import AppError
from app.http.problems import of_error
from app.ids import new_uuid

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

log = structlog.get_logger(__name__)

REQUEST_ID = "request_id"
_HEADER = b"x-request-id"
_SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
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


class UnexpectedErrors:
    """Answers what nobody foresaw with a bare problem document; the log has the rest."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, note_start)
        except Exception as error:
            if not started:
                log.exception("unexpected error", path=scope["path"])
                await of_error(AppError())(scope, receive, send)
            else:
                # Its end never comes: that is how the client learns that it was cut short.
                _log_cut_short(scope["path"], error)


def _log_cut_short(path: str, error: Exception) -> None:
    if isinstance(error.__cause__, AppError):
        log.error("a response was cut short", path=path, reason=error.__cause__.detail)
    else:
        log.error("a response was cut short", path=path, exc_info=error)


class _HeadSent(Exception):
    """All that HEAD asks for has been said."""


class Heads:
    """Answers HEAD as GET without the body: what watches over servers asks that way."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            # A stream would go on for as long as its run.
            raise _HeadSent

        with suppress(_HeadSent):
            await self._app({**scope, "method": "GET"}, receive, send_head)


class SafeHeaders:
    """Has browsers take an answer for what it says it is, and nobody keep it unless its route says so."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", [])
                given = {name.lower() for name, _ in headers}
                message["headers"] = [*headers, *(each for each in _SAFE_HEADERS if each[0] not in given)]
            await send(message)

        await self._app(scope, receive, send_safely)


class UnreadBodies:
    """Closes the connection after an answer to a request that was not told to send its body.

    The client asked first (`Expect: 100-continue`): the next bytes may be that body or another request.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or b"expect" not in dict(scope["headers"]):
            await self._app(scope, receive, send)
            return
        unread = True

        async def receive_noting() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and unread:
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive_noting, send_closing)
