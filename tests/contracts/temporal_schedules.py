"""A server process whose schedules Temporal fires, and what a person does in Temporal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from temporalio.api.schedule.v1 import SchedulePatch, TriggerImmediatelyRequest
from temporalio.api.workflowservice.v1 import PatchScheduleRequest
from temporalio.client import ScheduleBackfill, ScheduleDescription, ScheduleHandle, WorkflowExecutionStatus

from app.platform.db import Database
from app.requests.principal import Principal
from app.schedules.records import Schedule
from app.schedules.temporal.activities import ScheduleActivities
from app.schedules.temporal.comparison import ScheduleComparison
from app.schedules.temporal.mirror import ScheduleMirror
from app.schedules.temporal.schedules import TemporalSchedules
from app.schedules.temporal.timer import TemporalTimer
from app.schedules.temporal.worker import ScheduleFiringWorker
from tests.contracts.temporal import Temporal
from tests.integration.schedule_server import (
    MINUTE,
    ScheduleServer,
    SetClock,
    a_schedule_server,
    this_minute,
)
from tests.patience import PATIENCE_S

_COMPLETED = WorkflowExecutionStatus.COMPLETED


@dataclass(frozen=True, slots=True)
class FiredByTemporal:
    """The parts of the process."""

    server: ScheduleServer
    schedules: TemporalSchedules
    mirror: ScheduleMirror
    comparison: ScheduleComparison
    activities: ScheduleActivities

    def handle(self, schedule: UUID) -> ScheduleHandle:
        return self.schedules.temporal.client.get_schedule_handle(self.schedules.id_of(schedule))

    async def mirrored(self, schedule: Schedule) -> ScheduleDescription:
        """What Temporal has of it, when all changes have arrived."""
        await self.mirror.step()
        return await self.handle(schedule.id).describe()

    async def change(self, owner: Principal, schedule: Schedule, **timing: Any) -> Schedule:
        """Change its times."""
        return await self.server.service.change(
            owner,
            schedule.schedule_id,
            lambda terms: replace(terms, timing=replace(terms.timing, **timing)),
        )

    async def fire(self, schedule: Schedule, moment: datetime) -> None:
        """Temporal notices this time now, as if it came."""
        patch = SchedulePatch(trigger_immediately=TriggerImmediatelyRequest())
        patch.trigger_immediately.scheduled_time.FromDatetime(moment)
        client = self.schedules.temporal.client
        await client.workflow_service.patch_schedule(
            PatchScheduleRequest(
                namespace=client.namespace,
                schedule_id=self.schedules.id_of(schedule.id),
                patch=patch,
                request_id=str(uuid4()),
            )
        )

    async def backfill(self, schedule: Schedule, start: datetime, end: datetime) -> None:
        """A person has Temporal go through times of the past."""
        await self.handle(schedule.id).backfill(ScheduleBackfill(start, end))

    async def until_listed(self, *schedules: Schedule) -> None:
        """Wait until Temporal lists these and no others: its list follows changes a moment later."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.schedules.list_all()).keys() != {each.id for each in schedules}:
                await asyncio.sleep(0.05)

    async def until_done(self, count: int) -> list[str]:
        """Wait until so many workflows of its schedules have ended, no other is there; their histories."""
        client = self.schedules.temporal.client
        query = f"TaskQueue = '{self.schedules.firing_queue}'"
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = [each async for each in client.list_workflows(query)]
                if len(found) >= count and {each.status for each in found} == {_COMPLETED}:
                    break
                await asyncio.sleep(0.02)
        assert len(found) == count
        handles = [client.get_workflow_handle(each.id, run_id=each.run_id) for each in found]
        return [(await handle.fetch_history()).to_json() for handle in handles]


@asynccontextmanager
async def fired_by_temporal(
    database: Database, directory: Path, temporal: Temporal, *, clock: SetClock | None = None
) -> AsyncIterator[FiredByTemporal]:
    """Without its periodic work, except that it executes what Temporal starts."""
    connection = await temporal.server.connect()
    schedules = TemporalSchedules(connection, temporal.task_queue)
    clock = clock or SetClock(this_minute() - MINUTE / 2)
    async with a_schedule_server(
        database, directory, clock=clock, timer=TemporalTimer(database, schedules)
    ) as server:
        activities = ScheduleActivities(server.firing, schedules)
        working = asyncio.create_task(ScheduleFiringWorker(activities).work())
        try:
            yield FiredByTemporal(
                server,
                schedules,
                ScheduleMirror(database, schedules),
                ScheduleComparison(database, schedules, lambda: True),
                activities,
            )
        finally:
            working.cancel()
            await asyncio.wait({working})
