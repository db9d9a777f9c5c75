"""RunDrain: what becomes of its runs when a process stops."""

import asyncio
from dataclasses import dataclass, field

import structlog

from app.errors import Unavailable
from app.platform.background import first_of
from app.platform.db import StatementFailed
from app.runs.dispatch.port import Dispatcher
from app.runs.intake.readiness import IntakeReadiness
from app.runs.recovery.handover import RunHandover
from app.runs.recovery.heartbeat import Heartbeat
from app.runs.recovery.parking import RunParking
from app.runs.supervisor import RunSupervisor

log = structlog.get_logger(__name__)

STOP_S = 20.0
"""How long runs may take to stop."""

_HEARTBEAT_S = 2.0


@dataclass(frozen=True, slots=True)
class RunDrain:
    """Takes no more runs, parks those that wait, lets the others end, hands over or stops what is left."""

    intake: IntakeReadiness
    dispatcher: Dispatcher
    supervisor: RunSupervisor
    heartbeat: Heartbeat
    handover: RunHandover
    parking: RunParking
    stop_s: float = STOP_S
    _is_urgent: asyncio.Event = field(default_factory=asyncio.Event)
    _is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def hurry(self) -> None:
        """Wait no longer for runs to end, also in a `drain` that is under way."""
        self._is_urgent.set()

    async def drain(self, *, within_s: float) -> None:
        """Accept and start no more runs, and wait for the running ones; returns when none is active.

        Those that have not ended `within_s` are handed over or stopped. What that has not stopped is not
        waited for again.
        """
        if self._is_over.is_set():
            return
        self.intake.close()
        self.parking.hurry()
        if not self.dispatcher.is_draining:
            self.dispatcher.drain()
            await self._announce()
        ended = await first_of(self.supervisor.wait_idle(within_s=within_s), self._is_urgent.wait())
        if ended is not None and ended.index == 0 and ended.result:
            return
        await self.handover.hand_over(within_s=self.stop_s)
        self.supervisor.stop()
        await self.supervisor.wait_idle(within_s=self.stop_s)
        self._is_over.set()

    async def _announce(self) -> None:
        """Let the others know at once: the limits of accounts depend on the places of all."""
        try:
            await first_of(self.heartbeat.send(), timeout_s=_HEARTBEAT_S)
        except (Unavailable, StatementFailed) as error:
            log.warning("worker.draining_not_recorded", reason=str(error))
