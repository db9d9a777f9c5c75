"""ScheduleUpkeep: pauses schedules of revoked keys, deletes old history; every server process has one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from app.ids import ApiKeyId
from app.platform.background import AFTER_START_S, forever
from app.platform.db import Database
from app.schedules.firing.repository import delete_old_due_times
from app.schedules.repository import keys_in_use, lock_schedules_of, pause_schedule

log = structlog.get_logger(__name__)

HISTORY_KEPT = timedelta(days=90)
_INTERVAL_S = 60.0
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class ScheduleUpkeep:
    """Works on the database alone; several processes may do so at once."""

    database: Database
    find_active_keys: Callable[[set[ApiKeyId]], Awaitable[set[ApiKeyId]]]
    """The subset of these keys that is not revoked."""

    async def work(self) -> None:
        await forever(self._sweep, _INTERVAL_S, name="schedules.upkeep", first_after_s=AFTER_START_S)

    async def pause_revoked(self) -> None:
        """Pause the schedules of revoked keys, those too that are not due for a long time."""
        async with self.database.read() as reader:
            keys = await keys_in_use(reader)
        for start in range(0, len(keys), _BATCH):
            some = set(keys[start : start + _BATCH])
            if revoked := some - await self.find_active_keys(some):
                await self._pause_schedules_of(revoked)

    async def delete_old_history(self) -> None:
        """Delete due times that are older than they are kept."""
        before, deleted = await self.database.time() - HISTORY_KEPT, _BATCH
        while deleted == _BATCH:
            async with self.database.transaction() as tx:
                deleted = await delete_old_due_times(tx, before=before, limit=_BATCH)

    async def _pause_schedules_of(self, keys: set[ApiKeyId]) -> None:
        now = await self.database.time()
        async with self.database.transaction() as tx:
            for schedule in await lock_schedules_of(tx, keys):
                paused = await pause_schedule(tx, schedule, "key_revoked", now=now)
                log.warning("schedule.paused", schedule_id=paused.schedule_id, reason=paused.paused_reason)

    async def _sweep(self) -> None:
        await self.pause_revoked()
        await self.delete_old_history()
