"""Steps of a batch, one at a time: processes that die or stand still in between, refused runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from app.auth.accounts import Accounts
from app.billing.reports.service import BillingReports
from app.errors import AppError, Unavailable
from app.ids import RunKey
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.memory import MemoryCeiling
from app.platform.storage.records import KEPT_FOR_EVER
from app.platform.storage.service import StorageQuota
from app.requests.messages import Message
from app.runs.batches.lines import BatchLine
from app.runs.batches.records import MAX_ACTIVE, Batch, BatchConfig, BatchTerms, run_id_of
from app.runs.batches.repository import claim_batch, lock_batch, mark_started
from app.runs.batches.requests import BatchRequests
from app.runs.batches.service import BatchOrder, BatchService, TooManyBatches
from app.runs.batches.stepping import BatchSteps
from app.runs.batches.worker import BatchWorker
from app.runs.delegated.requests import DelegatedRunRequest
from app.runs.delegated.service import DelegatedRuns, StoredOrder
from app.runs.dispatch.limits import QueueFull
from app.runs.records import RunRecord
from app.runs.repository import find_run
from app.runs.requests.schema_preparation import SchemaPreparation
from tests.e2e.stories import until
from tests.integration.run_service import ONCE, Core, OpenCore
from tests.integration.statements import execute, scalar
from tests.patience import PATIENCE_S

LEASE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RefusingRuns(DelegatedRuns):
    """Starts runs, but before the first ones it raises these errors."""

    errors: list[AppError] = field(default_factory=list)

    async def start(self, order: StoredOrder) -> bool:
        if self.errors:
            raise self.errors.pop(0)
        return await DelegatedRuns.start(self, order)


@dataclass(frozen=True, slots=True)
class BatchServer:
    """What a server process has for batches."""

    core: Core
    steps: BatchSteps
    service: BatchService
    errors: list[AppError]

    async def create(self, items: int, *, parallelism: int = 2) -> Batch:
        messages = [Message.of(role="user", content="hello")]
        request = DelegatedRunRequest.of(graph_id=ONCE.id, messages=messages)
        lines = (BatchLine.of(custom_id=str(number), request=request) for number in range(items))
        order = BatchOrder(BatchTerms(parallelism, None), lines, b"")
        return await self.service.create(self.core.caller, order)

    async def get(self, batch: Batch) -> Batch:
        return await self.service.get(batch.account_id, batch.id)

    async def step(self, batch: Batch) -> Batch:
        """Make a step, however long the last one was to be followed by a pause."""
        await expire(self.core.database, batch)
        assert await self.steps.make_one()
        return await self.get(batch)

    async def runs_ended(self) -> None:
        await until(lambda: not self.core.starter.attempts())

    async def runs(self, batch: Batch) -> list[RunRecord | None]:
        """The runs of all items."""
        async with self.core.database.read() as reader:
            keys = [RunKey(batch.account_id, run_id_of(batch.id, n)) for n in range(1, batch.items + 1)]
            return [await find_run(reader, key) for key in keys]


async def expire(database: Database, batch: Batch) -> None:
    """The claim of a process that has died has expired, or a pause is over: it is due the longest."""
    await execute(
        database, "UPDATE batches SET step_at = now() - interval '1 day' WHERE id = :batch", batch=batch.id
    )


@asynccontextmanager
async def a_batch_server(core: Core) -> AsyncIterator[BatchServer]:
    database, accounts, billing = core.database, Accounts(core.database), BillingReports(core.database)
    errors: list[AppError] = []
    runs = RefusingRuns(
        core.service,
        core.intake,
        codec=core.process.codec,
        memory=MemoryCeiling(2**40),
        find_principal=accounts.principal_of,
        errors=errors,
    )
    commands = core.process.commands
    steps = BatchSteps(database, runs, commands, billing=billing, config=BatchConfig(lease=LEASE))
    async with SchemaChecker(workers=1, check_s=5.0) as schemas:
        service = BatchService(
            database,
            BatchRequests(core.planner, SchemaPreparation(schemas, Offload()), Offload()),
            commands,
            billing=billing,
            storage=StorageQuota(database, None),
            require_active_key=accounts.require_active_key,
            on_created=lambda: None,
            by_default=KEPT_FOR_EVER,
        )
        yield BatchServer(core, steps, service, errors)


OpenBatches = Callable[[], AbstractAsyncContextManager[BatchServer]]


@pytest.fixture
def open_batches(open_core: OpenCore) -> OpenBatches:
    @asynccontextmanager
    async def opened() -> AsyncIterator[BatchServer]:
        async with open_core(places=8) as core, a_batch_server(core) as server:
            yield server

    return opened


async def claimed_and_marked(server: BatchServer, positions: Sequence[int]) -> Batch:
    """What a process that has died after marking these items has left."""
    async with server.core.database.transaction() as tx:
        claimed = await claim_batch(tx, lease=LEASE)
        assert claimed is not None
        await mark_started(tx, claimed.id, positions)
    return claimed


async def test_a_worker_makes_steps_until_all_items_have_ended(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        batch = await server.create(5)
        worker = asyncio.create_task(BatchWorker(server.steps.make_one, BatchConfig(pause_s=0.01)).work())

        async with asyncio.timeout(PATIENCE_S):
            while (found := await server.get(batch)).ended_at is None:
                await asyncio.sleep(0.02)
        worker.cancel()

        assert (found.status, found.succeeded, found.pending) == ("completed", 5, 0)


async def test_no_more_runs_than_wanted_are_active_and_a_claim_is_respected(
    open_batches: OpenBatches,
) -> None:
    async with open_batches() as server:
        batch = await server.create(5, parallelism=2)

        first = await server.step(batch)
        await execute(server.core.database, "UPDATE batches SET step_at = now() + interval '1 minute'")
        is_made = await server.steps.make_one()

        assert (first.pending, first.started) == (3, 2)
        assert not is_made


async def test_items_that_a_process_marked_before_it_died_are_started(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        batch = await server.create(3)
        await claimed_and_marked(server, [1, 2])
        before = await server.runs(batch)

        await server.step(batch)
        await server.runs_ended()
        counted = await server.step(batch)

        assert before == [None] * 3
        assert [run is not None for run in await server.runs(batch)] == [True, True, True]
        assert counted.succeeded == 2


async def test_a_run_that_was_started_by_a_process_that_died_is_not_started_again(
    open_batches: OpenBatches,
) -> None:
    async with open_batches() as server:
        batch = await server.create(1)
        await server.step(batch)
        await server.runs_ended()
        (run,) = await server.runs(batch)

        await server.step(batch)

        assert await server.runs(batch) == [run]


async def test_a_process_that_stood_still_decides_nothing_any_more(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        batch = await server.create(3, parallelism=2)
        stale = await claimed_and_marked(server, [])
        await server.step(batch)
        await server.runs_ended()

        async with server.core.database.transaction() as tx:
            locked = await lock_batch(tx, batch.id, step=stale.step)
        await server.steps._make(stale)
        found = await server.get(batch)

        assert locked is None
        assert (found.pending, found.started) == (1, 2)


async def test_items_that_had_no_run_when_the_batch_was_cancelled_get_none(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        batch = await server.create(4)
        await claimed_and_marked(server, [1])

        stopping = await server.service.cancel(server.core.caller, batch.id)
        ended = await server.step(batch)

        assert (stopping.status, stopping.started, stopping.cancelled) == ("stopping", 1, 3)
        assert (ended.status, ended.cancelled) == ("cancelled", 4)
        assert await server.runs(batch) == [None] * 4


async def test_what_is_refused_for_the_moment_is_repeated(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        batch = await server.create(2)
        server.errors.extend([QueueFull(retry_after_s=5), Unavailable()])

        for _ in range(3):
            await server.step(batch)
        await server.runs_ended()
        ended = await server.step(batch)

        assert (ended.status, ended.succeeded) == ("completed", 2)


async def test_an_item_that_is_refused_for_good_does_not_affect_the_others(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        batch = await server.create(2)
        server.errors.append(AppError())

        await server.step(batch)
        await server.runs_ended()
        ended = await server.step(batch)

        assert (ended.status, ended.refused, ended.succeeded) == ("completed", 1, 1)
        (refused, answered) = [each async for some in server.service.results(ended) for each in some]
        assert (refused.item.error, refused.run) == ("internal", None)
        assert answered.run is not None


async def test_a_revoked_key_stops_the_batch(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        batch = await server.create(3)
        await Accounts(server.core.database).revoke_key(server.core.caller.api_key_id)

        await server.step(batch)
        ended = await server.step(batch)

        assert (ended.status, ended.stop_reason) == ("stopped", "unauthenticated")
        assert (ended.refused, ended.cancelled) == (1, 2)


async def test_an_account_has_so_many_unfinished_batches(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        batches = [await server.create(1) for _ in range(MAX_ACTIVE)]
        with pytest.raises(TooManyBatches):
            await server.create(1)
        await server.service.cancel(server.core.caller, batches[0].id)
        await server.step(batches[0])

        assert (await server.create(1)).items == 1


async def test_a_server_that_is_stopping_makes_no_steps(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        await server.create(1)
        server.core.intake.close()

        assert not await server.steps.make_one()


async def test_requests_count_as_storage_until_their_runs_have_them(open_batches: OpenBatches) -> None:
    async with open_batches() as server:
        count = "SELECT coalesce(sum(bytes), 0)::int FROM storage_changes"
        batch = await server.create(3)
        before = await scalar(server.core.database, count)
        await server.service.cancel(server.core.caller, batch.id)
        after = await scalar(server.core.database, count)

        assert before > 3 * len("hello")
        assert after == 0
