"""ScheduleComparison: finds what differs between the rows and Temporal; one process does it for all."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from app.platform.background import forever
from app.platform.db import Database
from app.schedules.temporal.repository import insert_deleted, mark_unmirrored, mirrored_rows
from app.schedules.temporal.schedules import TemporalSchedules

log = structlog.get_logger(__name__)

_EVERY_S = 600.0
_LOOK_S = 1.0
"""How soon the first process notices that it is."""


@dataclass(slots=True)
class ScheduleComparison:
    """What it finds, the mirror changes: schedules that a person has deleted or changed, or Temporal lost."""

    database: Database
    schedules: TemporalSchedules
    is_first: Callable[[], bool]
    """Whether this is the process that does it for all."""
    _compared_at: float | None = field(default=None, init=False)

    async def work(self) -> None:
        """Go on until cancelled."""
        await forever(self.step, _LOOK_S, name="schedules.compare")

    async def step(self) -> None:
        """Compare at the start, and every ten minutes."""
        is_recent = self._compared_at is not None and time.monotonic() < self._compared_at + _EVERY_S
        if self.is_first() and not is_recent and await self.schedules.temporal.is_available():
            await self.compare()
            self._compared_at = time.monotonic()

    async def compare(self) -> None:
        """Mark all schedules that differ."""
        # First, because a row is stored before its schedule is created there.
        there = await self.schedules.list_all()
        async with self.database.read() as reader:
            rows = await mirrored_rows(reader)
        different = [row.id for row in rows if there.get(row.id) != row.shown]
        without_row = there.keys() - {row.id for row in rows}
        async with self.database.transaction() as tx:
            await mark_unmirrored(tx, different)
            await insert_deleted(tx, without_row)
        if different or without_row:
            log.info("schedules.compared", different=len(different), deleted=len(without_row))
