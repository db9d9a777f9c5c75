"""InProcessCalls: calls of an ASGI application of this process.

The application gets the same request that it would get over loopback; the HTTP server and its client, which
cost more time than most requests of a run to the gateway, are left out.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import structlog

from app.platform.server.loopback import AsgiApp, DropConnection, Scope

log = structlog.get_logger(__name__)

_Arrived = TypeVar("_Arrived")

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

_WAITING_CHUNKS = 64
"""How many chunks of a response may wait for their reader, before the provider has to wait."""


class NoResponse(Exception):
    """The application sends no response, or not all of it."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response whose headers have been sent."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]
    """Those of the body while they are being sent; raises `NoResponse`."""


class InProcessCalls:
    """Posts requests to an application, and passes its responses back while they are being sent."""

    def __init__(self, app: AsgiApp, *, headers_timeout_s: float, idle_timeout_s: float) -> None:
        """How long no headers of a response may arrive, and then nothing of its body."""
        self._app = app
        self._headers_timeout_s = headers_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._calls: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def post(self, path: str, body: bytes, headers: Headers) -> AsyncIterator[Response]:
        """Make a request, whose headers have names in lower case; the application sees when the body ends.

        Raises `NoResponse`.
        """
        connection = _Connection(body)
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
        task = asyncio.create_task(self._serve(scope, connection))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            status, sent = await _in_time(connection.started, self._headers_timeout_s)
            yield Response(status, sent, _chunks(connection, self._idle_timeout_s))
        finally:
            connection.leave()

    async def aclose(self) -> None:
        """Wait for calls that end by themselves: their readers have left."""
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def _serve(self, scope: Scope, connection: "_Connection") -> None:
        try:
            with suppress(DropConnection):
                await self._app(scope, connection.receive, connection.send)
        except Exception:
            log.exception("in_process.request_crashed")
        finally:
            connection.drop()


class _Connection:
    """One request and its response, between the client and the application."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.started: asyncio.Future[tuple[int, Headers]] = asyncio.get_running_loop().create_future()
        self.disconnected = asyncio.Event()
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        """None: the response was cut off. An empty chunk ends it."""
        self._read = asyncio.Event()
        self._ended = False

    async def receive(self) -> dict[str, Any]:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            if not self.started.done():
                self.started.set_result((event["status"], list(event["headers"])))
            return
        if chunk := event.get("body", b""):
            self.chunks.put_nowait(chunk)
            await self._wait_for_reader()
        if not event.get("more_body", False):
            self._ended = True
            self.chunks.put_nowait(b"")

    def drop(self) -> None:
        """Cut the response off, unless it has ended."""
        if self._ended:
            return
        self._ended = True
        if not self.started.done():
            self.started.set_exception(NoResponse("the application sent no response"))
            # Marks it as seen: the reader may have left.
            self.started.exception()
        self.chunks.put_nowait(None)

    async def read(self, timeout_s: float) -> bytes | None:
        chunk = await _in_time(self.chunks.get(), timeout_s)
        self._read.set()
        return chunk

    async def _wait_for_reader(self) -> None:
        while self.chunks.qsize() > _WAITING_CHUNKS and not self.disconnected.is_set():
            self._read.clear()
            await self._read.wait()

    def leave(self) -> None:
        """The reader reads no more."""
        self.disconnected.set()
        self._read.set()


async def _in_time(arrival: Awaitable[_Arrived], timeout_s: float) -> _Arrived:
    try:
        async with asyncio.timeout(timeout_s):
            return await arrival
    except TimeoutError as error:
        raise NoResponse("nothing arrived in time") from error


async def _chunks(connection: _Connection, idle_timeout_s: float) -> AsyncGenerator[bytes, None]:
    while chunk := await connection.read(idle_timeout_s):
        yield chunk
    if chunk is None:
        raise NoResponse("the response was cut off")
