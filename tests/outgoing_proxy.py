"""An outgoing proxy on loopback, and servers behind it with certificates of a private authority."""

import asyncio
import base64
import re
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.e2e.stories import until

Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]
CLOSED, SILENT = 0, 1
"""Instead of an answer: the connection is closed, or waits."""

_CLOSE_S = 1.0
CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass(slots=True)
class ConnectProxy:
    """Leads CONNECT to ports of loopback, whatever the name or address is."""

    ports: dict[str, int]
    """By host: all others are unknown."""
    credentials: tuple[str, str] | None = None
    refuses: int | None = None
    """The status of every answer, or `CLOSED` or `SILENT`."""
    port: int = 0
    requested: list[str] = field(default_factory=list)
    """The host and port of each request."""
    writers: set[StreamWriter] = field(default_factory=set)
    """Of all connections."""

    @property
    def url(self) -> str:
        """Without credentials."""
        return f"http://127.0.0.1:{self.port}"

    def cut_off(self) -> None:
        """End all connections: what is idle would be used again."""
        for writer in self.writers:
            writer.transport.abort()

    async def __call__(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer one connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            target = head.split()[1]
            self.requested.append(target)
            port = self.ports.get(target.rpartition(":")[0].strip("[]"))
            status = self._status(head, port)
            if status == 200:
                there = await asyncio.open_connection("127.0.0.1", port)
                writer.write(CONNECTED)
                await _join((reader, writer), there)
            elif status == SILENT:
                await reader.read()
            elif status != CLOSED:
                writer.write(f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n".encode())

    def _status(self, head: str, port: int | None) -> int:
        if self.refuses is not None:
            return self.refuses
        if self.credentials is not None:
            pair = base64.b64encode(":".join(self.credentials).encode()).decode()
            if re.search(rf"(?i:\r\nproxy-authorization: basic) {re.escape(pair)}\r\n", head) is None:
                return 407
        return 502 if port is None else 200


@asynccontextmanager
async def listening(proxy: ConnectProxy, *, tls: Path | None = None) -> AsyncIterator[ConnectProxy]:
    """Serve while the body runs, on a port that is kept; `tls` is its certificate."""
    context = None if tls is None else _server_tls(tls)
    async with _serving(proxy, proxy.port, context, proxy.writers) as proxy.port:
        yield proxy


@asynccontextmanager
async def over_tls(
    url: str, certificate: Path, *, clients: Path | None = None, names: list[str | None] | None = None
) -> AsyncIterator[int]:
    """A port where a plain server is reached over TLS.

    `clients` is the authority of the certificates that it requires; `names` gets those that are asked for.
    """
    context = _server_tls(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"] if clients is None else ["http/1.1"])
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    if names is not None:
        context.sni_callback = lambda _socket, name, _context: names.append(name)
    where = urlsplit(url)

    async def forward(reader: StreamReader, writer: StreamWriter) -> None:
        await _join((reader, writer), await asyncio.open_connection(where.hostname, where.port))

    async with _serving(forward, 0, context, set()) as port:
        yield port


@asynccontextmanager
async def _serving(
    answer: Handler, port: int, context: ssl.SSLContext | None, writers: set[StreamWriter]
) -> AsyncIterator[int]:
    """The port; at the end all connections are closed, whose `writers` are kept."""

    async def handle(reader: StreamReader, writer: StreamWriter) -> None:
        writers.add(writer)
        try:
            await answer(reader, writer)
        finally:
            await _close(writer)
            writers.discard(writer)

    server = await asyncio.start_server(handle, "127.0.0.1", port, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()
        await until(lambda: not writers)


def _server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


async def _join(one: tuple[StreamReader, StreamWriter], other: tuple[StreamReader, StreamWriter]) -> None:
    """Pass on both ways until one side ends."""
    ways = [asyncio.create_task(_pass(one[0], other[1])), asyncio.create_task(_pass(other[0], one[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await _close(one[1], other[1])


async def _close(*writers: StreamWriter) -> None:
    for writer in writers:
        writer.close()
    for writer in writers:
        with suppress(ConnectionError, TimeoutError, ssl.SSLError):
            # TLS waits for the other side to close as well.
            await asyncio.wait_for(writer.wait_closed(), _CLOSE_S)
        writer.transport.abort()


async def _pass(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
