"""InProcessTransport: an HTTP transport whose server is an ASGI application of this process.

The application gets the same request that it would get over loopback; only the HTTP server and its client are
left out, which cost more time than most requests of a run to the gateway.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx2
import structlog

from app.platform.server.loopback import AsgiApp, DropConnection, Scope

log = structlog.get_logger(__name__)

_FORWARDED = {b"accept", b"content-type", b"user-agent", b"anthropic-version", b"anthropic-beta"}
"""The headers of the client that matter; others may come from this machine's environment."""

_WAITING_CHUNKS = 64
"""How many chunks of a response may wait for their reader, before the provider has to wait."""


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Passes requests to an application, and its responses back while they are being sent."""

    def __init__(self, app: AsgiApp, *, idle_timeout_s: float) -> None:
        """`idle_timeout_s`: how long nothing may arrive of a response whose headers have."""
        self._app = app
        self._idle_timeout_s = idle_timeout_s
        self._calls: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Start the request; the response is returned once its headers are known."""
        connection = _Connection(await request.aread())
        task = asyncio.create_task(self._serve(_scope_of(request), connection))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            async with asyncio.timeout(_read_timeout_of(request)):
                status, headers = await asyncio.shield(connection.started)
        except TimeoutError as error:
            connection.leave()
            raise httpx2.ReadTimeout("the application sent no headers in time") from error
        except BaseException:
            # The reader gives up, or the application does.
            connection.leave()
            raise
        return httpx2.Response(
            status, headers=headers, stream=_ResponseBody(connection, self._idle_timeout_s)
        )

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
        self.started: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = (
            asyncio.get_running_loop().create_future()
        )
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
            self.started.set_exception(httpx2.RemoteProtocolError("the application sent no response"))
            # Marks it as seen: the reader may have left.
            self.started.exception()
        self.chunks.put_nowait(None)

    async def read(self, timeout_s: float) -> bytes | None:
        try:
            async with asyncio.timeout(timeout_s):
                chunk = await self.chunks.get()
        except TimeoutError as error:
            raise httpx2.ReadTimeout("nothing arrived in time") from error
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


class _ResponseBody(httpx2.AsyncByteStream):
    def __init__(self, connection: _Connection, idle_timeout_s: float) -> None:
        self._connection = connection
        self._idle_timeout_s = idle_timeout_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self._connection.read(self._idle_timeout_s):
            yield chunk
        if chunk is None:
            raise httpx2.ReadError("the response was cut off")

    async def aclose(self) -> None:
        self._connection.leave()


def _scope_of(request: httpx2.Request) -> Scope:
    return {
        "type": "http",
        "method": request.method,
        "path": request.url.path,
        "query_string": request.url.query,
        "headers": [
            (name.lower(), value) for name, value in request.headers.raw if name.lower() in _FORWARDED
        ],
    }


def _read_timeout_of(request: httpx2.Request) -> float | None:
    timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
    return timeouts.get("read")
