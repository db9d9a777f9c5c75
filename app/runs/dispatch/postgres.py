"""PostgresDispatcher: claims ready runs from their table for the free places of this process."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio

from app.errors import AppError
from app.platform.background import first_of, forever
from app.platform.clock.lease import Lease
from app.platform.logs.dependency import DependencyLog
from app.runs.dispatch.places import PlaceClaim, Places
from app.runs.dispatch.port import POLL_S, READY_CHANNEL
from app.runs.dispatch.queue import RunQueue
from app.runs.dispatch.records import ClaimedRun, ClaimedRuns, Workers

_RUNS_AT_ONCE = 8
"""How many runs one claim takes: others may have more free places."""

_LOADED_DELAY_S = 0.008
"""How long a process whose places are nearly all taken lets others go first; others in proportion."""

_WOKEN = 8
"""How many workers try to claim a run of which all are notified. More would only keep the database busy."""


_dispatch_log = partial(
    DependencyLog, unavailable="dispatch.paused", available="dispatch.resumed", each_reason=True
)


@dataclass(slots=True)
class PostgresDispatcher:
    """Claims ready runs and starts them, until it drains."""

    queue: RunQueue
    places: Places
    lease: Lease
    graphs: Sequence[str]
    """The ids of the graphs that this process can execute."""
    start: Callable[[ClaimedRun], None]
    """Gets each claimed run, which holds a place."""
    require_ready: Callable[[], None]
    """Raises while no run may start."""
    _log: DependencyLog = field(default_factory=_dispatch_log, init=False)
    _due: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _workers: Workers = field(default_factory=lambda: Workers(with_free_places=0, first=None), init=False)

    @property
    def is_first(self) -> bool:
        """Whether this is the worker that does what has to be done once for all."""
        return self._workers.first == self.queue.process_id

    @property
    def is_draining(self) -> bool:
        """Whether this process takes no more runs."""
        return self.places.is_closed

    @contextmanager
    def claim_place(self, *, wanted: bool) -> Iterator[PlaceClaim]:
        """Take a place for a run that this process stores as its own, if it is wanted and free."""
        since = self.lease.elapsed_s()
        with self.places.claim(wanted=wanted and self.lease.is_held) as claim:
            yield claim
            if claim.used_by is not None:
                self.lease.add(claim.used_by, since=since)

    def drain(self) -> None:
        """Take no more runs: those that wait are for other workers, or for this one when it is back."""
        self.places.is_closed = True

    def observe(self, workers: Workers) -> None:
        """The last heartbeat has shown these workers."""
        self._workers = workers

    async def ping(self) -> None:
        """Always ready: it needs the database only."""

    async def work(self) -> None:
        """Dispatch until cancelled; a process without places has nothing to do."""
        if not self.places.total:
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            tasks.start_soon(partial(forever, self.step, 0, name="dispatching"))

    async def _listen(self) -> None:
        await forever(
            partial(self.queue.database.listen, READY_CHANNEL, self._on_ready),
            0,
            name="notifications of ready runs",
        )

    def _on_ready(self, offered_to: str) -> None:
        self.places.may_have_backlog = True
        if not self.places.free:
            return
        if offered_to == str(self.queue.process_id):
            self._due.set()
            return
        if random.random() * self._workers.with_free_places >= _WOKEN:  # noqa: S311 - no secret
            return
        delay_s = self.places.load * _LOADED_DELAY_S
        if offered_to:
            delay_s += self.queue.limits.offered_for.total_seconds()
        asyncio.get_running_loop().call_later(delay_s, self._due.set)

    async def step(self) -> None:
        """Wait until runs may be ready and a place is free, and claim them."""
        woken = await first_of(self._due.wait(), self.places.freed.wait(), timeout_s=POLL_S)
        self._due.clear()
        self.places.freed.clear()
        # A claim keeps places from runs that are posted meanwhile.
        if woken is not None or (self.places.free and await self.queue.has_ready()):
            await self.claim()

    async def claim(self) -> None:
        places = self.places
        while places.free:
            since = self.lease.elapsed_s()
            if not self._is_ready():
                return
            count = min(places.free, _RUNS_AT_ONCE)
            # A run that becomes ready during the query sets it again.
            places.may_have_backlog = False
            places.take(count)
            claimed = ClaimedRuns([], has_left_some=False)
            try:
                claimed = await self.queue.claim(
                    count, graphs=self.graphs, workers=self._workers.with_free_places
                )
            except BaseException:
                places.may_have_backlog = True
                raise
            finally:
                places.give_back(count - len(claimed.runs))
            for each in claimed.runs:
                self.lease.add(each.run.key, since=since)
                self.start(each)
            if not claimed.has_left_some:
                return
            places.may_have_backlog = True

    def _is_ready(self) -> bool:
        if not self.lease.is_held:
            # Another process may be taking over a run that this one has not stopped yet.
            return False
        try:
            self.require_ready()
        except AppError as error:
            self._log.failed(error.detail)
            return False
        self._log.worked()
        return True
