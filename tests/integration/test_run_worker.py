"""How the end of a run is stored and published."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from structlog.testing import capture_logs

from app.auth.records import KeyRecord
from app.billing.budgets.records import Amount
from app.billing.credit.ledger import CreditLedger, Reserved
from app.billing.receipts.delivery import ReceiptDelivery
from app.events import AssistantFinal, ClientEvent, Done, TextDelta, UsageReport
from app.executors.port import ABORTED, INTERNAL, ExecutionFailed, RunContext
from app.ids import RunKey
from app.platform.db import Database
from app.requests.run_request import GraphRunRequest
from app.runs.events.terminal import POSITIONS_PER_ATTEMPT
from app.runs.repository import finish_run, stored_events
from app.streams.memory import MemoryEventLog
from app.usage.records import TokenUsage
from tests.e2e.stories import until
from tests.factories import a_fact, a_final, a_plan
from tests.integration.run_process import (
    REQUEST,
    Executing,
    a_process,
    a_run_elsewhere,
    begin_next_attempt,
    record_of,
)
from tests.integration.statements import execute
from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Answering:
    """An executor that answers, once it may."""

    may_answer: asyncio.Event
    began: asyncio.Event

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        await context.events.publish(TextDelta(message_id="m", delta="hello"))
        self.began.set()
        await self.may_answer.wait()
        await context.events.publish(AssistantFinal(content="hello"))


class WitnessLog(MemoryEventLog):
    """Looks, when the result of a run is published, whether the run is stored already."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self.stored_before_end: list[bool] = []

    async def append(self, run: RunKey, event: ClientEvent, *, at: int | None = None) -> int:
        if isinstance(event, AssistantFinal | Done):
            self.stored_before_end.append((await record_of(self._database, run)).finished)
        return await super().append(run, event, at=at)


async def test_a_run_is_stored_before_readers_see_its_end(database: Database, tmp_path: Path) -> None:
    run, log = await a_run_elsewhere(database), WitnessLog(database)
    executor = Answering(asyncio.Event(), asyncio.Event())
    executor.may_answer.set()

    async with a_process(database, tmp_path, executor=executor, log=log) as process:
        process.supervisor.start(a_plan(run=run), REQUEST)

    assert log.stored_before_end == [True, True]
    assert (await record_of(database, run)).status == "succeeded"


async def test_a_process_presumed_dead_stores_nothing_of_an_earlier_attempt(
    database: Database, tmp_path: Path
) -> None:
    run, log = await a_run_elsewhere(database), WitnessLog(database)
    executor = Answering(asyncio.Event(), asyncio.Event())

    async with a_process(database, tmp_path, executor=executor, log=log) as process:
        process.supervisor.start(a_plan(run=run), REQUEST)
        await executor.began.wait()
        async with database.transaction() as tx:
            await begin_next_attempt(tx, run)
        executor.may_answer.set()

    record = await record_of(database, run)
    assert (record.status, record.attempt, record.final) == ("running", 1, None)
    async with database.snapshot() as reader:
        assert await stored_events(reader, run) == []
    assert log.stored_before_end == []


async def test_a_run_that_a_replica_which_took_over_lacks_is_left(database: Database, tmp_path: Path) -> None:
    run = await a_run_elsewhere(database)

    async def lose(_context: RunContext) -> None:
        await execute(database, "SET LOCAL session_replication_role = replica", "DELETE FROM runs")

    with capture_logs() as logs:
        async with (
            asyncio.timeout(PATIENCE_S),
            a_process(database, tmp_path, executor=Executing(lose)) as process,
        ):
            process.supervisor.start(a_plan(run=run), REQUEST)

    events = [each["event"] for each in logs]
    assert ("run.fenced" in events, "run.store_failed" in events) == (True, False)


async def do_nothing(_context: RunContext) -> None:
    """Answer at once."""


async def test_a_run_that_crashes_fails_alone(database: Database, tmp_path: Path) -> None:
    run = await a_run_elsewhere(database)

    async def crash(_context: RunContext) -> None:
        raise KeyError(run.run_id)

    async with a_process(database, tmp_path, executor=Executing(crash)) as process:
        process.supervisor.start(a_plan(run=run), REQUEST)

    record = await record_of(database, run)
    assert record.final is not None
    assert (record.status, record.final.error) == ("failed", "internal")


async def test_a_run_that_cannot_be_stored_has_no_end_before_it_is(
    database: Database, tmp_path: Path
) -> None:
    """This process may end meanwhile: then another one gives the run another end."""
    run, log = await a_run_elsewhere(database), WitnessLog(database)

    async def make_unavailable(_context: RunContext) -> None:
        await execute(database, "ALTER TABLE run_events RENAME TO unavailable")

    with capture_logs() as logs:
        async with a_process(database, tmp_path, executor=Executing(make_unavailable), log=log) as process:
            process.supervisor.start(a_plan(run=run), REQUEST)
            await until(lambda: "run.store_failed" in [each["event"] for each in logs])
            assert log.stored_before_end == []
            await execute(database, "ALTER TABLE unavailable RENAME TO run_events")

    assert log.stored_before_end == [True, True]
    assert (await record_of(database, run)).status == "succeeded"
    async with database.snapshot() as reader:
        assert await stored_events(reader, run)


async def a_reserving_run(database: Database, key: KeyRecord, credits_: int) -> RunKey:
    """A run that has reserved so much of 1000 credits."""
    run, ledger = await a_run_elsewhere(database, key), CreditLedger(database)
    await ledger.grant(run.account_id, 1000)
    await ledger.change_mode(run.account_id, "prepaid")
    async with database.transaction() as tx:
        assert await ledger.reserve(tx, run, credits_) == Reserved(Amount(credits_, 0))
    return run


async def test_what_a_run_has_spent_is_debited_before_its_credit_is_released(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    """Otherwise another process could spend it until the receipt arrives."""
    run, ledger = await a_reserving_run(database, key, 1000), CreditLedger(database)
    report = UsageReport(a_fact(key, usage=TokenUsage(input_tokens=10)))

    async def use(context: RunContext) -> None:
        await context.events.publish(report)

    async with a_process(database, tmp_path, executor=Executing(use)) as process:
        active = process.supervisor.start(a_plan(run=run), REQUEST)
        await active.ended.wait()
        credit = await ledger.balance(run.account_id)
        # The delivery inserts it again, which changes nothing.
        before = len(process.receipts)
        await ReceiptDelivery(database, process.receipts).aclose()
        after = len(process.receipts)

    assert (credit.reserved, credit.spent, before, after) == (0, 300, 1, 0)
    assert (await ledger.balance(run.account_id)).spent == 300


async def test_a_run_of_which_nothing_is_still_to_be_debited_releases_its_credit_when_it_ends(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    run = await a_reserving_run(database, key, 1000)

    async with a_process(database, tmp_path, executor=Executing(do_nothing)) as process:
        active = process.supervisor.start(a_plan(run=run), REQUEST)
        await active.ended.wait()
        credit = await CreditLedger(database).balance(run.account_id)

    assert (credit.reserved, credit.balance) == (0, 1000)


async def test_a_reservation_made_after_another_process_ended_the_run_is_released(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    """It takes this process for dead, which calls the model once more."""
    run, ledger = await a_reserving_run(database, key, 100), CreditLedger(database)
    ended = a_final(error="internal")

    async def be_taken_for_dead(_context: RunContext) -> None:
        async with database.transaction() as tx:
            assert await finish_run(tx, run, attempt=0, final=ended, report=None, events=[])
            await ledger.release(tx, run)
        assert await ledger.resize_reservation(run, Amount(500, 0)) is not None
        raise ExecutionFailed(*INTERNAL)

    async with a_process(database, tmp_path, executor=Executing(be_taken_for_dead)) as process:
        process.supervisor.start(a_plan(run=run), REQUEST)

    credit = await ledger.balance(run.account_id)
    assert (credit.reserved, credit.balance) == (0, 1000)


async def test_a_run_with_too_much_output_is_stopped_and_billed(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    run = await a_run_elsewhere(database, key)

    async def talk(context: RunContext) -> None:
        while not context.control.stop.is_set():
            await context.events.publish(TextDelta(message_id="m", delta="word "))
        await context.events.publish(UsageReport(a_fact(key)))
        raise ExecutionFailed(*ABORTED)

    async with a_process(database, tmp_path, executor=Executing(talk)) as process:
        active = process.supervisor.start(a_plan(run=run), REQUEST)
        await active.ended.wait()
        pending = process.receipts.pending_credits(run).total
    async with database.snapshot() as reader:
        rows = await stored_events(reader, run, max_bytes=2**30)

    final = (await record_of(database, run)).final
    assert final is not None
    assert (final.error, final.finish_reason, final.usage.completion_tokens) == ("rate_limit", "budget", 100)
    assert pending > 0
    # 1 MiB at 1 KiB and five characters each, run_started, error and done.
    assert rows[-1].last_position < 1030


async def test_a_later_attempt_without_the_earlier_events_begins_after_their_positions(
    database: Database, tmp_path: Path
) -> None:
    run = await a_run_elsewhere(database)
    async with database.transaction() as tx:
        await begin_next_attempt(tx, run)

    async with a_process(database, tmp_path, executor=Executing(do_nothing)) as process:
        process.supervisor.start(a_plan(run=run, attempt=1), REQUEST)

    async with database.snapshot() as reader:
        stored = await stored_events(reader, run)
    assert stored[0].position == POSITIONS_PER_ATTEMPT + 1
