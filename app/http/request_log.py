"""RequestLog: one log line for each request, when its response has ended."""

import re
import time
from typing import Final

import structlog

from app.http.middleware import Message, Middleware, Receive, Scope, Send, route_of
from app.http.streaming.encoder import EVENT_STREAM
from app.ids import RUN_ID_PATTERN
from app.platform.logs.context import note, noting
from app.platform.telemetry.trace_context import CallerTrace

log = structlog.get_logger(__name__)

_METHOD_CHARS: Final = 16
POLLED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Requested every few seconds, by monitoring: logged at debug level."""


class _Response:
    """What is known of a response from what was sent."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.events: int | None = None
        """Server-sent events; None for any other response."""
        self.is_complete = False

    def count(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if dict(message.get("headers", ())).get(b"content-type", b"").startswith(EVENT_STREAM.encode()):
                self.events = 0
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            if self.events is not None:
                # A line of data is JSON, so it contains no line break; comments and `retry` are no events.
                self.events += body.count(b"\ndata:") + body.startswith(b"data:")
            self.is_complete = not message.get("more_body", False)


class RequestLog(Middleware):
    """Logs method, route, status and duration of each request, and what `note` has added meanwhile.

    Never the path itself, a query string or a body: they are the client's.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, response = time.monotonic(), _Response()

        async def send_counted(message: Message) -> None:
            await send(message)
            response.count(message)

        with noting(**_trace(scope)):
            try:
                await self.app(scope, receive, send_counted)
            finally:
                _log(scope, response, time.monotonic() - began)


def _log(scope: Scope, response: _Response, elapsed_s: float) -> None:
    run_id = scope.get("path_params", {}).get("runId", "")
    if re.fullmatch(RUN_ID_PATTERN, run_id):
        note(run_id=run_id)
    route = route_of(scope)
    write = log.debug if route in POLLED else log.info
    write(
        "http.request",
        method=scope["method"][:_METHOD_CHARS],
        route=route,
        status=response.status,
        duration_ms=round(elapsed_s * 1000, 1),
        complete=response.is_complete,
        **({} if response.events is None else {"events": response.events}),
    )


def _trace(scope: Scope) -> dict[str, str]:
    """The trace of a valid W3C `traceparent`, if the request has exactly one."""
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"]
    caller = CallerTrace.read(given)
    return {} if caller is None else {"trace_id": caller.trace_id}
