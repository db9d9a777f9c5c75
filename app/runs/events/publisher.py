"""RunEventPublisher: appends a run's events to the event log, one at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from app.errors import Unavailable
from app.events import ClientEvent, Interrupted
from app.executors.port import FIRST_ATTEMPT
from app.ids import RunKey
from app.platform.clock.lease import Lease
from app.platform.db import Database, DatabaseUnavailable
from app.runs.events.terminal import POSITIONS_PER_ATTEMPT
from app.runs.repository import store_interruption
from app.streams.port import EventLog

log = structlog.get_logger(__name__)

_NO_LEASE = "this process has no lease"
LEASE_WAIT_S = 120.0
"""How long an event waits for the process's lease; then the run ends with `database_unavailable`."""


@dataclass(slots=True)
class RunEventPublisher:
    """The only writer of a run's events before its end, so positions are in order."""

    database: Database
    event_log: EventLog
    run: RunKey
    attempt: int
    lease: Lease
    lease_wait_s: float = LEASE_WAIT_S
    observe: Callable[[ClientEvent], None] | None = None
    """Gets each event once it is appended."""
    _publish_lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _store_lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _interruption: dict[str, str] = field(default_factory=dict, init=False)
    _is_resumed: bool = field(init=False)

    def __post_init__(self) -> None:
        self._is_resumed = self.attempt == FIRST_ATTEMPT

    async def publish(self, event: ClientEvent, *, at: int | None = None) -> int | None:
        """Append an event and return its position; None for a run that another process executes now.

        `at`: see `EventLog.append`.
        Raises what the event log raises, and `DatabaseUnavailable` without a lease.
        """
        async with self._publish_lock:
            is_held = await self.lease.wait_held(self.run, within_s=self.lease_wait_s)
            if self.lease.is_lost(self.run):
                return None
            if not is_held:
                raise DatabaseUnavailable.because(_NO_LEASE)
            await self._resume()
            position = await self.event_log.append(self.run, event, at=at)
        if self.observe is not None:
            self.observe(event)
        if isinstance(event, Interrupted):
            await self._store_interruption(event)
        return position

    async def publish_once(self, event: ClientEvent) -> None:
        """Append an event of the run's beginning, unless an earlier attempt has, as far as the log has it.

        Raises what `publish` raises, and `Unavailable` if the log cannot be read.
        """
        if self.attempt > FIRST_ATTEMPT:
            await self.resume()
            if any(entry.event == event for entry in await self.event_log.read(self.run)):
                return
        await self.publish(event)

    @asynccontextmanager
    async def paused(self, *, within_s: float) -> AsyncIterator[bool]:
        """While the body runs nothing is published; yields False if an event could not be `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                await self._publish_lock.acquire()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            self._publish_lock.release()

    async def resume(self) -> None:
        """Continue the event log of the earlier attempts, unless this has been done."""
        async with self._publish_lock:
            await self._resume()

    async def _resume(self) -> None:
        if not self._is_resumed:
            after = self.attempt * POSITIONS_PER_ATTEMPT
            await self.event_log.resume(self.run, attempt=self.attempt, after=after)
            self._is_resumed = True

    async def _store_interruption(self, event: Interrupted) -> None:
        now = datetime.now(UTC).isoformat()
        self._interruption = {"kind": event.kind, "state": event.state, "at": now}
        try:
            # Each writer stores the latest state, so the row is never behind the event log.
            async with self._store_lock, self.database.transaction() as tx:
                await store_interruption(tx, self.run, self._interruption, attempt=self.attempt)
        except Unavailable as error:
            log.warning("run.interruption_not_stored", reason=error.detail)
