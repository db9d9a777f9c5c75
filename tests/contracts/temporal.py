"""Temporal's dev server for tests."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from app.platform.background import until
from app.platform.embedded.ports import free_port
from app.platform.temporal.connection import TemporalConfig, TemporalConnection, TemporalUnavailable, connect
from tests.patience import PATIENCE_S

_PROGRAM = Path(sys.executable).with_name("temporal")

_OPTIONS = (
    "matching.enableFairness=true",
    # Accounts are equal within a partition.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)


@dataclass
class TemporalServer:
    """A server process; `database` is its file, None: everything is in its memory."""

    port: int
    database: Path | None = None
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Does not wait until it responds."""
        file = [] if self.database is None else ["--db-filename", str(self.database)]
        options = [each for option in _OPTIONS for each in ("--dynamic-config-value", option)]
        self._process = subprocess.Popen(
            [_PROGRAM, "server", "start-dev", "--headless", "--port", str(self.port), *file, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """It does nothing any more, and stores nothing more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def connect(self) -> TemporalConnection:
        """Connect as soon as it responds."""
        connections: list[TemporalConnection] = []

        async def is_connected() -> bool:
            try:
                connections.append(await connect(TemporalConfig(self.address, "default"), identity="test"))
            except TemporalUnavailable:
                return False
            return True

        async with asyncio.timeout(PATIENCE_S):
            await until(is_connected, 0.05, name="connecting")
        return connections[0]


@contextmanager
def a_temporal_server(database: Path | None = None) -> Iterator[TemporalServer]:
    """Started, on a free port."""
    server = TemporalServer(free_port(), database)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@dataclass(frozen=True, slots=True)
class Temporal:
    """A server, and a task queue of the test's own."""

    server: TemporalServer
    task_queue: str = field(default_factory=lambda: f"runs-{uuid4().hex}")
