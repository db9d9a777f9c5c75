"""ScheduleMirror: makes the schedules in Temporal what their rows are; every process has one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from app.platform.background import forever, run_to_completion
from app.platform.db import Database
from app.platform.temporal.connection import TemporalUnavailable
from app.schedules.records import Schedule
from app.schedules.temporal.repository import (
    insert_deleted,
    mark_unmirrored,
    take_deleted,
    take_unmirrored,
)
from app.schedules.temporal.schedules import ScheduleRefused, TemporalSchedules

log = structlog.get_logger(__name__)

Item = TypeVar("Item")

_AT_ONCE = 8
_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class ScheduleMirror:
    """It keeps nothing in memory: the rows have what Temporal got."""

    database: Database
    schedules: TemporalSchedules

    async def work(self) -> None:
        """Go on until cancelled."""
        await forever(self.step, _EVERY_S, name="schedules.mirror")

    async def step(self) -> None:
        """Mirror what has changed, and delete what was deleted; while Temporal is away, nothing."""
        may_go_on = True
        while may_go_on and await self.schedules.temporal.is_available():
            # What is marked as mirrored is mirrored, also if this process stops meanwhile.
            put, deleted = await run_to_completion(self._put()), await run_to_completion(self._delete())
            may_go_on = put or deleted

    async def _put(self) -> bool:
        """Mirror some schedules; returns whether there may be more."""
        async with self.database.write() as tx:
            changed = await take_unmirrored(tx, limit=_AT_ONCE)
        failed = await self._failed(self._put_one, changed)
        if failed:
            async with self.database.write() as tx:
                await mark_unmirrored(tx, [schedule.id for schedule in failed])
        return not failed and len(changed) == _AT_ONCE

    async def _put_one(self, schedule: Schedule) -> None:
        try:
            await self.schedules.put(schedule)
        except ScheduleRefused:
            # The servers notice its due times themselves. It is tried again when the two are compared.
            log.warning("schedule.not_mirrored", schedule_id=schedule.schedule_id)

    async def _delete(self) -> bool:
        """Delete some schedules in Temporal; returns whether there may be more."""
        async with self.database.write() as tx:
            deleted = await take_deleted(tx, limit=_AT_ONCE)
        failed = await self._failed(self.schedules.delete, deleted)
        if failed:
            async with self.database.write() as tx:
                await insert_deleted(tx, failed)
        return not failed and len(deleted) == _AT_ONCE

    async def _failed(self, work: Callable[[Item], Awaitable[None]], items: Sequence[Item]) -> list[Item]:
        """Do it with each; returns those for which it has failed: Temporal is away, or for another reason."""
        if not items or not await self.schedules.temporal.check():
            return list(items)
        results = await asyncio.gather(*map(work, items), return_exceptions=True)
        for error in results:
            if error is not None and not isinstance(error, TemporalUnavailable):
                log.error("schedule.mirror_failed", exc_info=error)
        return [item for item, error in zip(items, results, strict=True) if error is not None]
