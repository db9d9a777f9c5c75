"""Opens what starts runs on its own: schedules and batches."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio

from app.auth.accounts import Accounts
from app.bootstrap.infrastructure import Infrastructure
from app.bootstrap.runs import OpenedRuns
from app.bootstrap.storage import default_retention
from app.runs.batches.records import BatchConfig
from app.runs.batches.requests import BatchRequests
from app.runs.batches.service import BatchService
from app.runs.batches.stepping import BatchSteps
from app.runs.batches.worker import BatchWorker
from app.runs.delegated.service import DelegatedRuns
from app.runs.preview import RunPreviewer
from app.schedules.firing.service import ScheduleFiring
from app.schedules.firing.worker import ScheduleWorker
from app.schedules.requests import ScheduledRequests
from app.schedules.service import ScheduleService
from app.schedules.upkeep import ScheduleUpkeep


@dataclass(frozen=True, slots=True)
class OpenedSchedules:
    """The services of schedules and batches."""

    schedules: ScheduleService
    batches: BatchService


async def open_schedules(
    infra: Infrastructure,
    stack: AsyncExitStack,
    opened: OpenedRuns,
    *,
    previewer: RunPreviewer,
    accounts: Accounts,
) -> OpenedSchedules:
    """Start runs of schedules and batches until the stack is closed: before the server waits for its runs."""
    runs = DelegatedRuns(
        opened.runs,
        opened.intake,
        codec=opened.codec,
        memory=infra.memory,
        find_principal=accounts.principal_of,
    )
    firing = ScheduleFiring(infra.database, runs=runs, commands=opened.commands)
    config = BatchConfig(per_account=infra.settings.max_runs_per_account)
    steps = BatchSteps(infra.database, runs, opened.commands, billing=infra.billing, config=config)
    batch_worker = BatchWorker(steps.make_one, config)
    schedules = ScheduleService(
        infra.database,
        firing,
        requests=ScheduledRequests(previewer, opened.codec),
        storage=infra.storage,
        find_principal=accounts.principal_of,
        require_active_key=accounts.require_active_key,
        max_per_account=infra.settings.max_schedules_per_account,
    )
    batches = BatchService(
        infra.database,
        BatchRequests(infra.planner, infra.schemas, infra.offload),
        opened.commands,
        billing=infra.billing,
        storage=infra.storage,
        require_active_key=accounts.require_active_key,
        on_created=batch_worker.wake,
        by_default=default_retention(infra.settings),
        clock=infra.clock,
    )
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    tasks.start_soon(ScheduleWorker(infra.database, firing).work)
    tasks.start_soon(ScheduleUpkeep(infra.database, accounts.find_active_keys).work)
    tasks.start_soon(batch_worker.work)
    tasks.start_soon(batches.delete_old)
    return OpenedSchedules(schedules, batches)
