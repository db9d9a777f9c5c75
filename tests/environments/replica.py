"""A streaming replica of PostgreSQL, which is made from a backup of it."""

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg

from app.platform.embedded import postgres
from app.platform.embedded.ports import free_port
from app.platform.embedded.watched import environment
from tests.patience import PATIENCE_S


class Replica:
    """A replica that a test may stop, start again, and make late."""

    def __init__(self, data: Path, url: str) -> None:
        self._data = data
        self._port = free_port()
        self._process: Process | None = None
        self._copied = url
        parts = urlsplit(url)
        self.url = f"postgresql://{parts.username}:{parts.password}@127.0.0.1:{self._port}{parts.path}"
        """Of the same database of the replica."""

    async def start(self) -> None:
        """Run it until it answers."""
        options = {"port": self._port, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        # A replica must allow as many connections as what it copies.
        options["max_connections"] = str(await _execute(self._copied, "SHOW max_connections"))
        self._process = await asyncio.create_subprocess_exec(
            *(*postgres._unprivileged_prefix(), str(postgres._binary("postgres")), "-D", str(self._data)),
            *(f"--{name}={value}" for name, value in options.items()),
            stdout=DEVNULL,
            stderr=DEVNULL,
            env=environment(),
            cwd=self._data,
        )
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(OSError, asyncpg.PostgresError):
                    await self._execute("SELECT 1")
                    return
                assert self._process.returncode is None, "the replica has ended; its server's log says why"
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop it without waiting for its clients."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(2)
            await self._process.wait()
            self._process = None

    async def pause(self) -> None:
        """From now on it shows nothing new."""
        await self._execute("SELECT pg_wal_replay_pause()")
        async with asyncio.timeout(PATIENCE_S):
            while await self._execute("SELECT pg_get_wal_replay_pause_state()") != "paused":
                await asyncio.sleep(0.01)

    async def resume(self) -> None:
        """It shows again what is written."""
        await self._execute("SELECT pg_wal_replay_resume()")

    async def _execute(self, statement: str) -> object:
        return await _execute(self.url, statement)


@asynccontextmanager
async def a_replica(directory: Path, url: str) -> AsyncIterator[Replica]:
    """A replica of the server with this database."""
    data, slot = directory / "replica", f"replica_{uuid4().hex}"
    await _back_up(url, data, slot)
    replica = Replica(data, url)
    try:
        await replica.start()
        yield replica
    finally:
        await replica.stop()
        # Else the server would keep everything for it that is written from now on.
        await _execute(url, f"SELECT pg_drop_replication_slot('{slot}')")


async def _back_up(url: str, data: Path, slot: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(str(postgres._binary("pg_basebackup")), "--dbname", url, "--pgdata", str(data)),
        *("--checkpoint", "fast", "--write-recovery-conf", "--create-slot", "--slot", slot),
        stderr=PIPE,
        env=environment(),
    )
    _, error = await process.communicate()
    assert process.returncode == 0, error
    await asyncio.to_thread(lambda: postgres._chown_unprivileged(data, *data.rglob("*")))


async def _execute(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()
