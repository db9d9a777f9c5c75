"""RunActivities: executes the runs that Temporal gives to this process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Protocol

from temporalio import activity

from app.errors import AppError, NotFound, Unavailable
from app.ids import RunKey
from app.platform.background import first_of, forever, until
from app.platform.clock.lease import Lease
from app.platform.db import StatementFailed
from app.platform.temporal.retries import try_again
from app.runs.dispatch.places import Places
from app.runs.dispatch.queue import RunQueue
from app.runs.dispatch.records import ClaimedRun
from app.runs.dispatch.temporal.workflows import CANCEL_RUN, EXECUTE_RUN, RunReference

HEARTBEATS = 3
"""In the time after which Temporal takes an attempt for lost."""

_CANCEL_RETRY_S = 1.0


class Execution(Protocol):
    """The runs that this process executes."""

    def start(self, claimed: ClaimedRun) -> None:
        """Start a run that this process has claimed, and that holds a place."""
        ...

    def executes(self, run: RunKey) -> bool:
        """Whether this process executes the run, or is about to."""
        ...

    async def wait_ended(self, run: RunKey) -> None: ...


@dataclass(slots=True)
class RunActivities:
    """Each attempt to execute a run is an activity; whether it may, the run's row decides."""

    queue: RunQueue
    places: Places
    lease: Lease
    graphs: Sequence[str]
    """The ids of the graphs that this process can execute."""
    execution: Execution
    stop: Callable[[RunKey, Literal["cancel"]], Awaitable[object]]
    """Cancels a run, wherever it is."""
    require_ready: Callable[[], None]
    """Raises while no run may start here."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when this process waits for no run any more."""

    @activity.defn(name=EXECUTE_RUN)
    async def execute_run(self, run: RunReference) -> None:
        """Claim the run and wait for its end; raises a retryable error if another process is to do so.

        A run that this process executes already is only waited for: Temporal may have lost sight of an
        attempt. A cancellation cancels the run. Any other end of the attempt leaves the run alone.
        """
        try:
            await self._with_heartbeats(self._execute(run.key))
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            if details is None or not details.cancel_requested:
                raise
            await self._with_heartbeats(self._cancel(run.key))
            raise

    @activity.defn(name=CANCEL_RUN)
    async def cancel_run(self, run: RunReference) -> None:
        """Cancel the run, if it has not ended."""
        await self._cancel(run.key)

    async def _execute(self, run: RunKey) -> None:
        try:
            if not self.execution.executes(run):
                since = self.lease.elapsed_s()
                self._require_intake()
                await self._claim(run, since=since)
            await self.execution.wait_ended(run)
            is_active = await self.queue.is_active(run)
        except (Unavailable, StatementFailed) as error:
            try_again(str(error))
        if is_active:
            # In another process, or its attempt here was taken over and the next one is ready.
            try_again("the run is not executed here")

    def _require_intake(self) -> None:
        if self.places.is_closed:
            try_again("this process takes no more runs")
        if not self.lease.is_held:
            # Another process may be taking over a run that this one has not stopped yet.
            try_again("this process has sent no heartbeat to the database")
        if not self.places.free:
            try_again("this process has no free place")
        try:
            self.require_ready()
        except AppError as error:
            try_again(error.detail)

    async def _claim(self, run: RunKey, *, since: float) -> None:
        """Start the run if it is ready; the lease was held at `since`."""
        self.places.take()
        claimed = None
        try:
            claimed = await self.queue.claim_run(run, graphs=self.graphs)
        finally:
            if claimed is None:
                self.places.give_back()
        if claimed is not None:
            self.lease.add(run, since=since)
            self.execution.start(claimed)

    async def _cancel(self, run: RunKey) -> None:
        """Cancel the run, and wait for its end if it is here."""

        async def is_requested() -> bool:
            try:
                await self.stop(run, "cancel")
            except NotFound:
                # Its account has deleted it.
                return True
            return True

        await until(is_requested, _CANCEL_RETRY_S, name="cancellation by Temporal")
        await self.execution.wait_ended(run)

    async def _with_heartbeats(self, work: Awaitable[None]) -> None:
        """Do the work, and let Temporal know meanwhile that this process is alive; less when it closes."""

        async def beat() -> None:
            activity.heartbeat()

        async def wait() -> None:
            await work

        timeout = activity.info().heartbeat_timeout or timedelta(seconds=self.lease.term_s)
        every_s = timeout.total_seconds() / HEARTBEATS
        beating = forever(beat, every_s, name="heartbeats to Temporal")
        first = await first_of(wait(), self.closed.wait(), beating)
        if first is not None and first.index == 1:
            try_again("this process ends")
