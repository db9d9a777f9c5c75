"""Door: a PostgreSQL that can be stopped and started at one address."""

import asyncio
import contextlib
from pathlib import Path

from app.platform.embedded.ports import free_port
from app.platform.embedded.postgres import EmbeddedPostgres


class Door:
    """A TCP proxy in front of PostgreSQL that can be closed, so that its address survives a restart."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server: asyncio.Server | None = None
        self._open = contextlib.AsyncExitStack()
        self._target = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = free_port()
        self.url = ""

    async def start(self) -> None:
        """Start PostgreSQL and accept connections."""
        postgres = await self._open.enter_async_context(EmbeddedPostgres.start(self._directory))
        credentials, _, address = postgres.url.rpartition("@")
        host_port, _, name = address.partition("/")
        self._target = int(host_port.rpartition(":")[2])
        self.url = f"{credentials}@127.0.0.1:{self.port}/{name}"
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Stop PostgreSQL."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._open.aclose()
        self._open = contextlib.AsyncExitStack()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers |= {writer, back}
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
            self._writers -= {writer, back}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
