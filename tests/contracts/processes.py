"""Two server processes with one relay, and a reader in one of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

from app.ids import RunKey
from app.streams.port import LogEntry
from app.streams.relay.connection import EventLogUnavailable
from app.streams.relayed import RelayedEventLog
from tests.contracts.event_logs import a_relayed_log
from tests.patience import PATIENCE_S

AFTER = 1_000_000
"""The position after which the next attempt begins."""


@asynccontextmanager
async def two_processes(
    url: str, *, timeout_s: float = 5.0
) -> AsyncIterator[tuple[RelayedEventLog, RelayedEventLog]]:
    async with (
        a_relayed_log(url, timeout_s=timeout_s) as here,
        a_relayed_log(url, timeout_s=timeout_s) as there,
    ):
        yield here, there


async def until_relayed(there: RelayedEventLog, run: RunKey, position: int) -> list[LogEntry]:
    """What another process reads, once this position is there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(EventLogUnavailable):
                held = list(await there.read(run))
                if held and held[-1].position >= position:
                    return held
            await asyncio.sleep(0.01)


class Reading:
    """A reader of another process's run, and what it has received so far."""

    def __init__(self, log: RelayedEventLog, run: RunKey, after: int = 0) -> None:
        self.received: list[LogEntry] = []
        self.changed = asyncio.Event()
        self.task = asyncio.create_task(self._read(log, run, after))

    async def _read(self, log: RelayedEventLog, run: RunKey, after: int) -> list[LogEntry]:
        async with aclosing(log.follow(run, after=after)) as batches:
            async for batch in batches:
                self.received += batch
                self.changed.set()
        return self.received

    async def until(self, position: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not self.received or self.received[-1].position < position:
                self.changed.clear()
                await self.changed.wait()

    async def end(self) -> list[LogEntry]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.task
