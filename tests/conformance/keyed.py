"""A proxy that adds a key to each request, for programs that cannot send one."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

_CHUNK_BYTES = 65_536
_REQUEST_LINE = re.compile(rb"[A-Z]+ \S+ HTTP/1\.1\r\n")


@asynccontextmanager
async def with_key(url: str, key: str) -> AsyncIterator[str]:
    """Pass everything on to this server, byte by byte, and the key; yields the URL of the proxy."""
    target = urlsplit(url)
    header = f"Authorization: Bearer {key}\r\n".encode()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, to_upstream = await asyncio.open_connection(target.hostname, target.port)
        async with asyncio.TaskGroup() as both:
            both.create_task(_pass_on(reader, to_upstream, header))
            both.create_task(_pass_on(upstream, writer, b""))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, header: bytes) -> None:
    """Pass bytes on; the header follows each line that begins a request, which is sent as a whole."""
    try:
        while (chunk := await source.read(_CHUNK_BYTES)) and not target.is_closing():
            line = _REQUEST_LINE.match(chunk)
            end = 0 if line is None else line.end()
            target.write(chunk[:end] + (header if end else b"") + chunk[end:])
            await target.drain()
    except ConnectionError:
        pass  # one of the two has left
    finally:
        target.close()
