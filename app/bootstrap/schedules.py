"""Opens the schedules."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from app.auth.accounts import Accounts
from app.bootstrap.infrastructure import Infrastructure
from app.bootstrap.runs import OpenedRuns
from app.runs.dispatch.port import Dispatcher
from app.runs.preview import RunPreviewer
from app.runs.requests.codec import RequestCodec
from app.schedules.firing.port import Timer
from app.schedules.firing.service import ScheduleFiring
from app.schedules.firing.worker import ScheduleWorker
from app.schedules.requests import ScheduledRequests
from app.schedules.service import ScheduleService
from app.schedules.upkeep import ScheduleUpkeep

if TYPE_CHECKING:
    from app.platform.temporal.connection import TemporalConnection


async def open_schedules(
    infra: Infrastructure,
    stack: AsyncExitStack,
    opened: OpenedRuns,
    *,
    previewer: RunPreviewer,
    accounts: Accounts,
    temporal: "TemporalConnection | None",
) -> ScheduleService:
    """Start the runs of schedules until the stack is closed: before the server waits for its runs."""
    codec = RequestCodec(infra.offload)
    firing = ScheduleFiring(
        infra.database,
        runs=opened.runs,
        commands=opened.commands,
        codec=codec,
        memory=infra.memory,
        find_principal=accounts.principal_of,
    )
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    timer = (
        None
        if temporal is None
        else _open_temporal(infra, tasks, firing, opened.dispatcher, temporal=temporal)
    )
    tasks.start_soon(ScheduleWorker(infra.database, firing, timer).work)
    tasks.start_soon(ScheduleUpkeep(infra.database, accounts.find_active_keys).work)
    return ScheduleService(
        infra.database,
        firing,
        requests=ScheduledRequests(previewer, codec),
        storage=infra.storage,
        find_principal=accounts.principal_of,
        require_active_key=accounts.require_active_key,
        max_per_account=infra.settings.max_schedules_per_account,
    )


def _open_temporal(
    infra: Infrastructure,
    tasks: TaskGroup,
    firing: ScheduleFiring,
    dispatcher: Dispatcher,
    *,
    temporal: "TemporalConnection",
) -> Timer:
    """Let Temporal notice what is due."""
    from app.schedules.temporal.activities import ScheduleActivities
    from app.schedules.temporal.comparison import ScheduleComparison
    from app.schedules.temporal.mirror import ScheduleMirror
    from app.schedules.temporal.schedules import TemporalSchedules
    from app.schedules.temporal.timer import TemporalTimer
    from app.schedules.temporal.worker import ScheduleFiringWorker

    schedules = TemporalSchedules(temporal, infra.settings.temporal_task_queue)
    mirror = ScheduleMirror(infra.database, schedules)
    comparison = ScheduleComparison(infra.database, schedules, lambda: dispatcher.is_first)
    tasks.start_soon(mirror.work)
    tasks.start_soon(comparison.work)
    tasks.start_soon(ScheduleFiringWorker(ScheduleActivities(firing, schedules)).work)
    return TemporalTimer(infra.database, schedules)
