"""Http1Transport: HTTP/1.1 without a proxy, for answers of many pieces.

What has arrived together is read together, and a connection that waits for a request costs nothing: httpx's
own transport makes an event of every piece, and looks at every such connection before each request.
"""

import asyncio
import select
import ssl
import time
from collections import defaultdict, deque
from typing import Any, Final, NamedTuple

import httptools
import httpx2

PIECE_BYTES: Final = 4096
"""The most that is read at once: some forty events of an answer, which are handled in a millisecond."""

HEAD_BYTES: Final = 100 * 1024
"""The longest head of an answer, and the most that stands between or after the pieces of its body."""

REQUEST_WRITTEN: Final = "http11.send_request_body.complete"
"""What httpx names its trace event for a request that was written completely."""

_BUFFERED_BYTES: Final = 64 * 1024
"""How much of an answer may wait to be read before the server has to wait, too; also the most of a request
that is written at once: TLS takes whatever it gets, and does not say when that was sent."""

_SECOND_ADDRESS_S: Final = 0.25
"""After so long without a connection the host's next address is tried as well."""

_OK: Final = 200
_WITH_END: Final = frozenset({b"content-length", b"transfer-encoding"})


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: httpx2.URL) -> "_Origin":
        port = url.port or (443 if url.scheme == "https" else 80)
        return cls(url.scheme, url.raw_host.decode("ascii"), port)


class _Idle(NamedTuple):
    connection: "_Connection"
    since: float


class Http1Transport(httpx2.AsyncBaseTransport):
    """Of a request's timeouts only that of the connection counts: callers know how long answers may take."""

    def __init__(self, tls: ssl.SSLContext, *, kept: int, idle_s: float) -> None:
        """`kept` connections to an origin wait `idle_s` for another request."""
        tls.set_alpn_protocols(["http/1.1"])
        self._tls = tls
        self._kept = kept
        self._idle_s = idle_s
        self._idle: defaultdict[_Origin, deque[_Idle]] = defaultdict(deque)
        """The oldest first."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        origin = _Origin.of(request.url)
        connection = self._take(origin) or await self._connect(origin, request)
        try:
            status, headers = await connection.send(request)
        except BaseException:
            connection.abort()
            raise
        return httpx2.Response(status, headers=headers, stream=_Body(connection, origin, self))

    async def aclose(self) -> None:
        """Close the connections that wait."""
        for idle in self._idle.values():
            while idle:
                idle.pop().connection.abort()

    def keep(self, connection: "_Connection", origin: _Origin) -> None:
        """Use a connection for another request, if that is possible."""
        if not connection.is_reusable:
            connection.abort()
            return
        idle = self._idle[origin]
        idle.append(_Idle(connection, now := time.monotonic()))
        while idle and (len(idle) > self._kept or now - idle[0].since > self._idle_s):
            idle.popleft().connection.abort()

    def _take(self, origin: _Origin) -> "_Connection | None":
        idle = self._idle[origin]
        while idle:
            connection, since = idle.pop()
            is_open = connection.is_reusable and not connection.has_news
            if is_open and time.monotonic() - since <= self._idle_s:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: _Origin, request: httpx2.Request) -> "_Connection":
        is_https = origin.scheme == "https"
        try:
            async with asyncio.timeout(request.extensions.get("timeout", {}).get("connect")):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection,
                    *(origin.host, origin.port),
                    ssl=self._tls if is_https else None,
                    happy_eyeballs_delay=_SECOND_ADDRESS_S,
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(str(error), request=request) from error
        except (OSError, UnicodeError) as error:
            # The latter for what cannot be the name of a host.
            raise httpx2.ConnectError(str(error), request=request) from error
        return connection


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, as it arrives."""

    def __init__(self, connection: "_Connection", origin: _Origin, transport: Http1Transport) -> None:
        self._connection: _Connection | None = connection
        self._origin = origin
        self._transport = transport

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        if self._connection is None or not (piece := await self._connection.read()):
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.keep(connection, self._origin)


class _Connection(asyncio.Protocol):
    """One request after the other; the parser calls the methods `on_…`."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._waiter: asyncio.Future[None] | None = None
        self._problem: httpx2.TransportError | None = None
        self._is_write_paused = self._is_read_paused = False
        self._begin(b"")

    def _begin(self, request: bytes) -> None:
        """Expect the answer of a request."""
        self._unwritten = memoryview(request)
        self._parser = httptools.HttpResponseParser(self)
        # Of a length beside chunks only the chunks count.
        self._parser.set_dangerous_leniencies(lenient_chunked_length=True)
        self._headers: list[tuple[bytes, bytes]] = []
        self._head: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._head_bytes = 0
        self._body = bytearray()
        self._is_complete = self._is_kept_alive = False

    @property
    def is_reusable(self) -> bool:
        """Whether another request can be sent."""
        is_over = self._is_complete and not self._transport.get_write_buffer_size()
        return is_over and self._is_kept_alive and not self._is_read_paused and self._problem is None

    @property
    def has_news(self) -> bool:
        """Whether something has arrived that the event loop has not seen yet: most likely its end."""
        news = select.poll()
        news.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return bool(news.poll(0))

    async def send(self, request: httpx2.Request) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Send a request whose body is known; returns status and headers of its answer."""
        self._begin(_head_of(request) + request.content)
        self._write()
        while self._is_write_paused and self._head is None:
            await self._change()
        is_written = not (self._is_write_paused or self._transport.is_closing())
        if is_written and (trace := request.extensions.get("trace")) is not None:
            await trace(REQUEST_WRITTEN, {})
        while self._head is None:
            await self._change()
        return self._head

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end."""
        while not self._body and not self._is_complete:
            await self._change()
        piece = bytes(self._body[:PIECE_BYTES])
        del self._body[:PIECE_BYTES]
        if self._is_read_paused and len(self._body) < _BUFFERED_BYTES:
            self._is_read_paused = False
            self._transport.resume_reading()
        return piece

    def abort(self) -> None:
        self._transport.abort()

    async def _change(self) -> None:
        """Wait until something has happened; raises why nothing more will."""
        if self._problem is not None:
            raise self._problem
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, problem: httpx2.TransportError) -> None:
        self._problem = self._problem or problem
        self._transport.abort()
        self._wake()

    def _write(self) -> None:
        while self._unwritten and not self._is_write_paused:
            self._transport.write(self._unwritten[:_BUFFERED_BYTES])
            self._unwritten = self._unwritten[_BUFFERED_BYTES:]

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(_BUFFERED_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        named = {name.lower() for name, _ in self._headers}
        if exc is None and self._head is not None and not named & _WITH_END:
            self._is_complete = True
        self._fail(httpx2.ReadError(str(exc)) if exc else httpx2.RemoteProtocolError("closed too early"))

    def eof_received(self) -> None:
        # Not only once what is still to be written was: a server that answers no more may not read either.
        self.connection_lost(None)

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._write()
        self._wake()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx2.RemoteProtocolError(str(error)))
            return
        if self._head_bytes > HEAD_BYTES:
            self._fail(httpx2.RemoteProtocolError("a head is too long"))
        if len(self._body) > _BUFFERED_BYTES and not self._is_read_paused:
            self._is_read_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_begin(self) -> None:
        if self._is_complete:
            # Nothing was requested; the parser stops.
            raise httpx2.RemoteProtocolError("a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < _OK:
            self._headers = []
        else:
            self._head, self._is_kept_alive = (status, self._headers), self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._body += body
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        self._is_complete = self._head is not None


def _head_of(request: httpx2.Request) -> bytes:
    fields = [b"%s: %s" % each for each in request.headers.raw]
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path), *fields]
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise httpx2.LocalProtocolError("a header has several lines", request=request)
    return b"\r\n".join([*lines, b"", b""])
