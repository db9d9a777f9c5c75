"""Heartbeat: one row of this process in the database, renewed for all its runs together."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import structlog

from app.errors import Unavailable
from app.ids import RunKey
from app.platform.background import first_of, until
from app.platform.clock.boot_time import boot_time
from app.platform.clock.clock import Clock
from app.platform.clock.jumps import JumpDetector
from app.platform.clock.lease import Lease
from app.platform.db import Database
from app.runs.dispatch.port import Dispatcher
from app.runs.dispatch.records import Worker
from app.runs.recovery import repository
from app.runs.supervisor import RunSupervisor

log = structlog.get_logger(__name__)

HEARTBEATS = 3
"""In the time of a lease."""

_ALONE_CHECK_S = 0.2

_CLOCK_TOLERANCE = 2 / 3
"""By how much of a lease the database's clock may differ between two heartbeats from the time that passed."""


class RelayRequired(Unavailable):
    """Another server process uses this database: several need a relay, the same REDIS_URL."""


class Heartbeat:
    """Sends the heartbeats of this process, and stops its runs that another process has taken over."""

    def __init__(
        self,
        database: Database,
        worker: Worker,
        *,
        lease: Lease,
        dispatcher: Dispatcher,
        supervisor: RunSupervisor,
        attempts: Callable[[], Mapping[RunKey, int]],
        lose: Callable[[Collection[RunKey]], None],
        agents: Callable[[], Mapping[str, int] | None],
        clock: Clock,
    ) -> None:
        """`worker` is this process; `attempts` returns its runs, also those that have not started yet.

        `lose` stops those that another process has taken over; `agents` counts the CLI processes by state.
        """
        self._database = database
        self._worker = worker
        self._lease = lease
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._attempts = attempts
        self._lose = lose
        self._agents = agents
        self._clock = clock
        self._jumps = JumpDetector(lease.term_s * _CLOCK_TOLERANCE)
        self._last = -math.inf
        self._has_ended = False
        self._continuous_since = math.inf
        self._unconfirmed: dict[tuple[RunKey, int], float] = {}
        """Runs of this process in the database that it does not execute, and since when (boot time)."""

    async def send(self) -> None:
        """Record the heartbeat, stop the runs that are lost or cancelled, and renew the lease."""
        if self._has_ended:
            return
        began, places = boot_time(), self._dispatcher.places
        worker = replace(
            self._worker,
            places=places.total,
            taken=places.taken,
            draining=self._dispatcher.is_draining,
            agents=self._agents(),
            clock_ahead_s=self._clock.ahead_of_database_s,
        )
        async with self._database.transaction() as tx:
            await repository.record_worker(tx, worker)
            attempts = self._attempts()
            lost = await repository.lost_runs(tx, attempts)
            running = await repository.running_attempts(tx, worker.process_id)
            cancelled = await repository.cancelled_runs(tx, worker.process_id)
            workers = await repository.live_workers(tx)
            now = await repository.database_time(tx)
            has_jumped = self._jumps.has_jumped(now)
        # This process stood still for too long: what they do now would come twice.
        self._lose(lost)
        self._lease.renew(attempts, since=began)
        # The relay may have been away, or this process too busy.
        self._supervisor.cancel(cancelled)
        self._dispatcher.observe(workers)
        self._note_unconfirmed(running, besides=attempts)
        if has_jumped:
            log.critical("clock.jumped", clock="database", reading=now)
        if has_jumped or began - self._last > self._lease.term_s * 2 / HEARTBEATS:
            self._continuous_since = began
        self._last = began

    async def require_alone(self) -> None:
        """Raise `RelayRequired` if an older process is alive; waits for one that is about to end."""
        alone = until(self._is_oldest, _ALONE_CHECK_S, name="older processes")
        # One that was killed just now may count for as long as its lease.
        if await first_of(alone, timeout_s=self._lease.term_s + _ALONE_CHECK_S * 2) is None:
            raise RelayRequired

    async def end(self) -> None:
        """Send no more, and let the other processes know if this one executes no run any more."""
        self._has_ended = True
        if self._attempts():
            return
        try:
            async with self._database.write() as tx:
                await repository.delete_worker(tx, self._worker.process_id)
        except Unavailable as error:
            # The row is only of use for as long as its last heartbeat counts.
            log.warning("worker.not_removed", reason=error.detail)

    @property
    def continuous_s(self) -> float:
        """For how long this process has sent its heartbeats without a pause, on a clock that did not jump."""
        now = boot_time()
        if now - self._last > self._lease.term_s * 2 / HEARTBEATS:
            return 0.0
        return max(0.0, now - self._continuous_since)

    def unconfirmed(self, for_s: float) -> dict[RunKey, int]:
        """Attempts whose start the database has never confirmed to this process, known for so long."""
        since = boot_time() - for_s
        return {run: attempt for (run, attempt), first in self._unconfirmed.items() if first <= since}

    async def _is_oldest(self) -> bool:
        async with self._database.read() as reader:
            is_pooled = self._database.is_pooled
            return not await repository.has_older_worker(reader, self._worker.process_id, is_pooled=is_pooled)

    def _note_unconfirmed(self, running: Mapping[RunKey, int], *, besides: Mapping[RunKey, int]) -> None:
        found = {item for item in running.items() if item[0] not in besides}
        self._unconfirmed = {item: self._unconfirmed.get(item, boot_time()) for item in found}
