"""Processes that dispatch runs with one implementation of the dispatcher, and what was executed."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from app.ids import RunKey
from app.platform.background import forever
from app.platform.clock.lease import Lease
from app.platform.db import Database
from app.requests.run_request import GraphRunRequest
from app.runs.records import RunRecord
from app.runs.repository import find_run
from tests.contracts.temporal import Temporal, TemporalServer
from tests.integration.run_service import Core, a_core, beat
from tests.patience import PATIENCE_S
from tests.scripted import Action, WaitFor, WriteMessage

LEASE_S = 2.0


@dataclass
class Fleet:
    """The processes of one test."""

    database: Database
    database_url: str
    directory: Path
    temporal: Temporal | None
    """None: PostgreSQL dispatches."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """All runs wait for it, and then end."""
    executed: list[str] = field(default_factory=list)
    """The prompts of the runs that the processes here have executed, in order."""
    most: Counter[int] = field(default_factory=Counter)
    """How many places were taken at most when a run began, by process."""
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def join(self, places: int, **options: Any) -> Core:
        """One more process, which sends heartbeats and recovers runs."""
        number = len(self.most)
        self.most[number] = 0
        core: Core

        def script(request: GraphRunRequest) -> list[Action]:
            self.executed.append(request.messages[-1].text)
            self.most[number] = max(self.most[number], core.process.places.taken)
            return [WaitFor(self.go_on), WriteMessage("Hi.")]

        core = await self.stack.enter_async_context(
            a_core(
                self.database,
                self.directory / str(number),
                script,
                places=places,
                lease=Lease(LEASE_S),
                temporal=self.temporal,
                **options,
            )
        )
        beating = asyncio.create_task(forever(lambda: beat(core), LEASE_S / 4, name="heartbeats"))
        self.stack.callback(beating.cancel)
        return core

    async def spawn(self, places: int) -> "asyncio.subprocess.Process":
        """A real process with this database, as soon as it dispatches; see `dispatching_process`."""
        queue = [self.temporal.server.address, self.temporal.task_queue] if self.temporal else []
        arguments = [self.database_url, str(self.directory / "spawned"), str(places), *queue]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.contracts.dispatching_process", *arguments),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await process.stdout.readline() == b"ready\n"
        return process

    async def record(self, run: RunKey) -> RunRecord:
        async with self.database.read() as reader:
            record = await find_run(reader, run)
        assert record is not None
        return record

    async def statuses(self, runs: Sequence[RunRecord]) -> dict[str, int]:
        return dict(Counter([(await self.record(run.key)).status for run in runs]))

    async def until(self, runs: Sequence[RunRecord], **expected: int) -> None:
        """Wait until so many of these runs have each status."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.statuses(runs) != expected:
                await asyncio.sleep(0.02)

    async def until_queued(self, count: int) -> None:
        """Wait until so many ready runs wait for a place, also in Temporal's queue."""
        if self.temporal is None:
            return
        client = (await self.temporal.server.connect()).client
        request = DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=self.temporal.task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            report_stats=True,
        )
        async with asyncio.timeout(PATIENCE_S):
            while (
                await client.workflow_service.describe_task_queue(request)
            ).stats.approximate_backlog_count < count:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def a_fleet(
    database: Database, database_url: str, directory: Path, server: TemporalServer | None
) -> AsyncIterator[Fleet]:
    fleet = Fleet(database, database_url, directory, None if server is None else Temporal(server))
    async with fleet.stack:
        yield fleet


Outage: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
OpenFleet: TypeAlias = Callable[[], AbstractAsyncContextManager[Fleet]]
