"""RunParking: lets runs that only wait for answers wait in no process."""

import asyncio
import time
from dataclasses import dataclass, field

from app.ids import RunKey
from app.platform.background import forever
from app.runs.events.terminal import LAST_POSITION, POSITIONS_PER_ATTEMPT
from app.runs.supervisor import RunSupervisor

_EVERY_S = 1.0
_MOST_ATTEMPTS = LAST_POSITION // POSITIONS_PER_ATTEMPT - 10
"""After so many a run waits in its process: the positions of its events are limited."""


@dataclass(frozen=True, slots=True)
class RunParking:
    """Looks at the runs of this process; what may be parked its control knows."""

    supervisor: RunSupervisor
    after_s: float
    """For how long a run must only have waited."""
    _since: dict[RunKey, float] = field(default_factory=dict)
    _is_urgent: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self) -> None:
        await forever(self._step, min(_EVERY_S, self.after_s), name="parking")

    def hurry(self) -> None:
        """The process stops: park runs as soon as they only wait, and keep none open for messages."""
        self._is_urgent.set()
        self._park_idle()

    async def _step(self) -> None:
        self._park_idle()

    def _park_idle(self) -> None:
        now, active = time.monotonic(), self.supervisor.active()
        if self._is_urgent.is_set():
            for run in active:
                run.control.closing.set()
        idle = {
            run.plan.run: run
            for run in active
            if run.control.may_park and not run.is_lost and run.plan.attempt < _MOST_ATTEMPTS
        }
        since = {key: self._since.get(key, now) for key in idle}
        self._since.clear()
        self._since.update(since)
        for key, run in idle.items():
            if self._is_urgent.is_set() or now - since[key] >= self.after_s:
                run.control.park()
