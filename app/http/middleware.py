"""ASGI middleware for all requests; plain ASGI, because streams must not be buffered."""

import gzip
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

import structlog
from anyio.to_thread import run_sync

from app.errors import AppError
from app.http.problems import error_response
from app.ids import new_uuid
from app.platform.server.loopback import DropConnection

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

log = structlog.get_logger(__name__)

REQUEST_ID = "request_id"
_REQUEST_ID_HEADER = b"x-request-id"
_SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_LEAST_BYTES = 1_400
"""Of a body that is compressed: less is one packet either way."""
_AT_ONCE_BYTES = 64_000
"""Of a body that is compressed on the event loop."""
_LEVEL = 5
_OWN_SITE = b"same-origin"
_ACCEPTS_GZIP = re.compile(rb"(?:^|[\s,])gzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
_VALID_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class Middleware:
    """Handles HTTP requests; everything else, such as the lifespan, is passed on."""

    def __init__(self, app: AsgiApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or pass on what is none."""
        if scope["type"] == "http":
            await self.handle(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request: each middleware does it in its own way."""
        await self.app(scope, receive, send)


class RequestIds(Middleware):
    """Accepts or generates `X-Request-ID`; it is in every log line, response and receipt."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(_REQUEST_ID_HEADER, b"")
        known = given if _VALID_ID.fullmatch(given) else str(new_uuid()).encode()
        request_id = known.decode()
        scope.setdefault("state", {})[REQUEST_ID] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (_REQUEST_ID_HEADER, known)]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self.app(scope, receive, send_with_id)


class _HeadSent(Exception):
    """The headers of a HEAD response have been sent."""


class UnexpectedErrors(Middleware):
    """Responds to unexpected exceptions with a generic problem document and logs them."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_recorded(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_recorded)
        except (DropConnection, _HeadSent):
            # The response breaks off for the client as well, or is complete.
            raise
        except Exception as error:
            if not started:
                log.exception("http.unexpected_error", route=route_of(scope))
                await error_response(AppError())(scope, receive, send)
            else:
                # The response is left incomplete, so the client can detect that it was truncated.
                _log_truncated_response(route_of(scope), error)


def _log_truncated_response(route: str | None, error: Exception) -> None:
    if isinstance(cause := error.__cause__, AppError):
        # A person may delete what a response is being read from; that is no failure of the server.
        is_failure = cause.status >= AppError.status
        (log.error if is_failure else log.info)("http.response_truncated", route=route, reason=cause.detail)
    else:
        log.error("http.response_truncated", route=route, exc_info=error)


def route_of(scope: Scope) -> str | None:
    """The route with the names of its parameters: a path may name a person. None if there is none."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path is None and (mounted := scope.get("root_path")):
        return f"{mounted}/{{path}}"
    return path


class HeadRequests(Middleware):
    """Handles HEAD as GET without the body, for uptime monitors."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            # Otherwise a stream would stay open as long as its run.
            raise _HeadSent

        as_get = {**scope, "method": "GET"}
        with suppress(_HeadSent):
            await self.app(as_get, receive, send_head)
        scope["route"] = as_get.get("route")


class SecurityHeaders(Middleware):
    """Adds `nosniff`, and `no-store` unless the route has set `Cache-Control`."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", [])
                given = {name.lower() for name, _ in headers}
                message["headers"] = [*headers, *(each for each in _SAFE_HEADERS if each[0] not in given)]
            await send(message)

        await self.app(scope, receive, send_with_headers)


class UnreadBodies(Middleware):
    """Closes the connection after a response to a request whose body was never requested.

    With `Expect: 100-continue` the next bytes could be that body or another request.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if b"expect" not in dict(scope["headers"]):
            await self.app(scope, receive, send)
            return
        unread = True

        async def receive_tracking() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and unread:
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        await self.app(scope, receive_tracking, send_closing)


class CompressedJson(Middleware):
    """Compresses the JSON of GET requests where the client accepts it; streams and secrets are left alone.

    The length of a compressed body can reveal its content to a reader of the network who makes a browser
    send many requests with texts of their choice. The pages of other sites cannot be used for that: what they
    cause is not compressed, and has no session. Secrets, such as new keys, are only in responses to POST.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _may_be_compressed(scope):
            await self.app(scope, receive, send)
            return
        held: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_plain_json(message):
                held = message
                return
            if held is not None:
                start, held = held, None
                if not message.get("more_body") and len(message["body"]) >= _LEAST_BYTES:
                    start, message = await _compressed(start, message)
                await send(start)
            await send(message)

        await self.app(scope, receive, send_compressed)


def _may_be_compressed(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    accepts = _ACCEPTS_GZIP.search(headers.get(b"accept-encoding", b"")) is not None
    return accepts and scope["method"] == "GET" and headers.get(b"sec-fetch-site", _OWN_SITE) == _OWN_SITE


def _is_plain_json(start: Message) -> bool:
    headers = dict(start.get("headers", []))
    is_json = headers.get(b"content-type", b"").partition(b";")[0] == b"application/json"
    return is_json and b"content-encoding" not in headers


async def _compressed(start: Message, message: Message) -> tuple[Message, Message]:
    body = message["body"]
    at_once = len(body) <= _AT_ONCE_BYTES
    packed = gzip.compress(body, _LEVEL) if at_once else await run_sync(gzip.compress, body, _LEVEL)
    kept = [(name, value) for name, value in start["headers"] if name != b"content-length"]
    added = [
        (b"content-encoding", b"gzip"),
        (b"content-length", str(len(packed)).encode()),
        (b"vary", b"Accept-Encoding"),
    ]
    return {**start, "headers": [*kept, *added]}, {**message, "body": packed}
