"""ScheduleWorker: starts the runs of schedules when they are due; every server process has one."""

import asyncio
from collections import Counter
from contextlib import suppress
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup

from app.errors import Unavailable
from app.ids import new_uuid
from app.platform.background import forever
from app.platform.db import Database
from app.schedules.firing.agenda import farthest_attempt
from app.schedules.firing.repository import find_work
from app.schedules.firing.service import ScheduleFiring
from app.schedules.records import DueSchedule

log = structlog.get_logger(__name__)


class ScheduleWorker:
    """Finds schedules for which there is something to do; any number of processes may do so at once."""

    def __init__(self, database: Database, firing: ScheduleFiring) -> None:
        self._database = database
        self._firing = firing
        self._config = firing.config
        self._active: list[DueSchedule] = []
        self._slot_free = asyncio.Event()
        self._salt = new_uuid().int % 2**63

    async def work(self) -> None:
        """Start runs until cancelled; those that are being started are started nevertheless."""
        async with anyio.create_task_group() as tasks:
            await forever(partial(self._start_due, tasks), 0, name="schedules.start")

    async def _start_due(self, tasks: TaskGroup) -> None:
        due = await self._find_work()
        for each in due:
            self._active.append(each)
            tasks.start_soon(self._work_on, each)
        if not due:
            await self._wait()

    async def _find_work(self) -> list[DueSchedule]:
        config = self._config
        free = config.max_concurrent - len(self._active)
        self._slot_free.clear()
        if free <= 0 or not self._firing.is_accepting():
            return []
        now = await self._firing.read_time()
        accounts = Counter(each.account_id for each in self._active)
        async with self._database.read() as reader:
            return await find_work(
                reader,
                now=now,
                farthest_alignment=now + config.clock_tolerance,
                farthest_attempt=farthest_attempt(now, config),
                per_account=config.max_per_account,
                limit=free,
                salt=self._salt,
                busy=[each.id for each in self._active],
                busy_accounts=[name for name, count in accounts.items() if count >= config.max_per_account],
            )

    async def _wait(self) -> None:
        """Wait until something may be done: for the end of a start, or for the poll interval."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.poll_interval.total_seconds()):
                await self._slot_free.wait()

    async def _work_on(self, due: DueSchedule) -> None:
        try:
            if (claims := await self._firing.take(due.id)) is None:
                await self._pause()
                return
            for claimed in claims:
                await self._firing.start(claimed)
        except Unavailable as error:
            log.warning("schedule.delayed", reason=error.detail)
            await self._pause()
        except Exception:
            log.exception("schedule.failed", schedule=str(due.id))
            await self._pause()
        finally:
            self._active.remove(due)
            self._slot_free.set()

    async def _pause(self) -> None:
        """Keep the schedule from being tried again at once."""
        await asyncio.sleep(self._config.poll_interval.total_seconds())
