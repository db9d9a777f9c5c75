"""The part of a server process that starts the runs of schedules, with a clock that can be set."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from app.auth.accounts import Accounts
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.platform.pagination import PageRequest
from app.platform.server.memory import MemoryCeiling
from app.platform.storage.service import StorageQuota
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.delegated.service import DelegatedRuns
from app.runs.preview import RunPreviewer
from app.runs.records import RunRecord
from app.runs.requests.schema_preparation import SchemaPreparation
from app.schedules.cron import Timing
from app.schedules.firing.service import ScheduleFiring
from app.schedules.firing.worker import ScheduleWorker
from app.schedules.overlap import Overlap
from app.schedules.records import FiringConfig, Schedule, ScheduledRun, ScheduleTerms
from app.schedules.requests import ScheduledRequests
from app.schedules.service import ScheduleOrder, ScheduleService
from tests.e2e.stories import until
from tests.integration.run_service import Core, a_core, a_request, answers
from tests.patience import PATIENCE_S
from tests.scripted import Script, ScriptedExecutor, WaitFor, WriteMessage

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


@dataclass
class SetClock:
    """The clock of the database, as far as schedules know it."""

    now: datetime = NOON

    async def read(self) -> datetime:
        return self.now

    def go_on(self, by: timedelta) -> None:
        self.now += by


@dataclass(frozen=True, slots=True)
class ScheduleServer:
    """What a server process has for schedules."""

    core: Core
    database: Database
    clock: SetClock
    firing: ScheduleFiring
    service: ScheduleService
    worker: ScheduleWorker

    async def pass_once(self) -> None:
        """Do everything that is to be done now, and wait until it is done."""
        async with asyncio.timeout(PATIENCE_S):
            while due := await self.worker._find_work():
                self.worker._active.extend(due)
                works = [self.worker._work_on(each) for each in due]
                # All of them end before the first error is raised.
                for error in filter(None, await asyncio.gather(*works, return_exceptions=True)):
                    raise error

    async def at(self, moment: datetime) -> None:
        """Do everything that is to be done at this moment."""
        self.clock.now = moment
        await self.pass_once()

    @property
    def owner(self) -> Principal:
        """Whose schedules they are."""
        return self.core.caller

    async def schedule(
        self,
        cron: str = "* * * * *",
        *,
        owner: Principal | None = None,
        overlap: Overlap = "skip",
        catch_up_s: int = 3600,
        request: GraphRunRequest | None = None,
        paused: bool = False,
        **timing: Any,
    ) -> Schedule:
        """A new schedule."""
        terms = ScheduleTerms(Timing(cron, **timing), overlap, catch_up_s)
        order = ScheduleOrder(None, terms, request or a_request(), paused)
        return await self.service.create(owner or self.owner, order)

    async def history(self, schedule: Schedule) -> list[ScheduledRun]:
        """All due times of a schedule, oldest first."""
        found, _ = await self.service.history(self.owner, schedule.schedule_id, PageRequest(10_000))
        return found[::-1]

    async def outcomes(self, schedule: Schedule) -> list[str]:
        """What became of them."""
        return [due.outcome for due in await self.history(schedule)]

    async def runs(self) -> list[RunRecord]:
        """All runs of the account, oldest first."""
        found, _ = await self.core.service.list_runs(self.owner.account_id, PageRequest(10_000))
        return found[::-1]

    async def ended(self) -> None:
        """Wait for the end of all runs that this process executes."""
        await until(lambda: not self.core.starter.attempts())


class OpenServer(Protocol):
    """The fixture `open_server`."""

    def __call__(self, script: Script = ..., **options: Any) -> AbstractAsyncContextManager[ScheduleServer]:
        """A process with a directory of its own; `options` are those of `a_schedule_server`."""
        ...


@asynccontextmanager
async def a_schedule_server(
    database: Database,
    directory: Path,
    script: Script = answers,
    *,
    clock: SetClock | None = None,
    config: FiringConfig | None = None,
    places: int = 100,
    queued: int = 100,
    is_dispatching: bool = True,
    max_per_account: int = 100,
    storage: StorageQuota | None = None,
    memory: MemoryCeiling | None = None,
) -> AsyncIterator[ScheduleServer]:
    clock, accounts = clock or SetClock(), Accounts(database)
    async with (
        SchemaChecker(workers=1, check_s=5.0) as schemas,
        a_core(
            database, directory, script, places=places, queued=queued, is_dispatching=is_dispatching
        ) as core,
    ):
        codec = core.process.codec
        firing = ScheduleFiring(
            database,
            runs=DelegatedRuns(
                core.service,
                core.intake,
                codec=codec,
                memory=memory or MemoryCeiling(2**40),
                find_principal=accounts.principal_of,
            ),
            commands=core.process.commands,
            read_time=clock.read,
            config=config or FiringConfig(poll_interval=timedelta(milliseconds=20)),
        )
        previewer = RunPreviewer(
            core.planner, ScriptedExecutor(script), SchemaPreparation(schemas, Offload())
        )
        service = ScheduleService(
            database,
            firing,
            requests=ScheduledRequests(previewer, codec),
            storage=storage or StorageQuota(database, None),
            find_principal=accounts.principal_of,
            require_active_key=accounts.require_active_key,
            max_per_account=max_per_account,
        )
        worker = ScheduleWorker(database, firing)
        yield ScheduleServer(core, database, clock, firing, service, worker)


def due_at(due_times: Sequence[ScheduledRun]) -> list[timedelta]:
    """How long after noon they are."""
    return [due.due_at - NOON for due in due_times]


def waits_for(go_on: asyncio.Event) -> Script:
    """The script of a run that waits."""
    return lambda _: [WaitFor(go_on), WriteMessage("Done.")]


def this_minute() -> datetime:
    """When it began: that time has come, and no other comes in a test."""
    return datetime.now(UTC).replace(second=0, microsecond=0)


def yearly(moment: datetime) -> str:
    """The expression that matches this minute, and then a year later."""
    return f"{moment.minute} {moment.hour} {moment.day} {moment.month} *"
