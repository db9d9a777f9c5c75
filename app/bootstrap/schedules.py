"""Opens the schedules."""

from contextlib import AsyncExitStack

import anyio

from app.auth.accounts import Accounts
from app.bootstrap.infrastructure import Infrastructure
from app.bootstrap.runs import OpenedRuns
from app.runs.preview import RunPreviewer
from app.runs.requests.codec import RequestCodec
from app.schedules.firing.service import ScheduleFiring
from app.schedules.firing.worker import ScheduleWorker
from app.schedules.requests import ScheduledRequests
from app.schedules.service import ScheduleService
from app.schedules.upkeep import ScheduleUpkeep


async def open_schedules(
    infra: Infrastructure,
    stack: AsyncExitStack,
    opened: OpenedRuns,
    *,
    previewer: RunPreviewer,
    accounts: Accounts,
) -> ScheduleService:
    """Start the runs of schedules until the stack is closed: before the server waits for its runs."""
    codec = RequestCodec(infra.offload)
    firing = ScheduleFiring(
        infra.database,
        runs=opened.runs,
        intake=opened.intake,
        commands=opened.commands,
        codec=codec,
        memory=infra.memory,
        find_principal=accounts.principal_of,
    )
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    tasks.start_soon(ScheduleWorker(infra.database, firing).work)
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
