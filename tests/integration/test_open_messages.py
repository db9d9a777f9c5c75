"""A machine that is lost with its disk loses no bill, and a disk that returns charges nothing twice."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from app.auth.records import KeyRecord
from app.billing.credit.ledger import AccountTerms, CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.correction import correct
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.open_messages.records import OpenMessage
from app.billing.receipts.open_messages.repository import write_open_messages
from app.billing.receipts.repository import insert_receipts
from app.db import Database
from app.ids import RunId, RunKey
from app.runs.repository import claim_run
from app.usage import TokenUsage, UsageFact
from tests.factories import a_fact, an_account
from tests.integration.lost_machines import Machine, a_machine, receipts_of
from tests.integration.run_process import ELSEWHERE, a_run_elsewhere
from tests.integration.run_service import ONCE, RETRIED, Core, a_core, a_request, caller_of
from tests.unit.billing.receipts.journals import JournalDirectory

USD_OF_100 = Decimal("0.0045")
"""What 1000 tokens of input and 100 of output cost."""
PLACEHOLDER = "unanswered-1"


@pytest_asyncio.fixture
async def key(database: Database) -> KeyRecord:
    return await an_account(database)


@pytest_asyncio.fixture
async def admin(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


def used(output: int, key: KeyRecord, message: str = "msg_1", **fields: Any) -> UsageFact:
    return a_fact(key, message, usage=TokenUsage(input_tokens=1000, output_tokens=output), **fields)


async def rows(database: Database) -> int:
    async with database.read() as reader:
        return int((await reader.exec_driver_sql("SELECT count(*) FROM open_messages")).scalar_one())


async def charged(database: Database, run: RunKey) -> list[tuple[str, str, int]]:
    return [(r.usage_unit_id, r.basis, r.output_tokens) for r in await receipts_of(database, run)]


async def cost(database: Database, run: RunKey) -> Decimal:
    return sum((receipt.cost_usd for receipt in await receipts_of(database, run)), Decimal(0))


async def lose_machine(database: Database, directory: Path, *facts: UsageFact) -> None:
    """A machine is lost when these messages were in progress, and their rows written."""
    async with a_machine(database, directory) as lost:
        for fact in facts:
            lost.queue.start_message(fact)
        await lost.write_rows()


async def a_run(core: Core, key: KeyRecord, **fields: Any) -> RunKey:
    """A run with reserved credit that this process accepted, and does not execute."""
    await core.process.ledger.grant(key.account_id, 10**9)
    await core.process.ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    graph = RETRIED if "state_key" in fields else ONCE
    request, run = a_request(graph, **fields), RunKey(key.account_id, RunId("run-1"))
    plan = core.planner.plan(run, request, api_key_id=key.id, request_id="req-1")
    assert await core.acceptance.accept(caller_of(key), request, plan, fingerprint=b"") is not None
    return run


async def test_a_run_that_ends_is_charged_before_its_credit_is_released(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with a_core(database, tmp_path / "here") as core:
        run = await a_run(core, key)
        await lose_machine(database, tmp_path / "lost", used(100, key))

        assert await core.recovery.recover(timeout_s=0) == 1

        # Nothing is delivered in this process: it was stored with the end of the run.
        (receipt,) = await receipts_of(database, run)
        balance = await core.process.ledger.balance(key.account_id)
    assert (receipt.basis, receipt.output_estimated, receipt.cost_usd) == ("partial", True, USD_OF_100)
    assert (balance.reserved, balance.balance) == (0, 10**9 - receipt.charged_credits)
    assert await rows(database) == 0


async def test_the_budget_of_the_next_attempt_counts_what_the_lost_machine_had_begun(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with a_core(database, tmp_path / "here") as core:
        run = await a_run(core, key, state_key="chat-1")
        await lose_machine(database, tmp_path / "lost", used(100, key))
        record = await core.service.get(run)
        delivering = asyncio.create_task(ReceiptDelivery(database, core.process.receipts).work())

        plan = await core.recovery._plan_next_attempt(record)

        delivering.cancel()
        await asyncio.wait({delivering})
    assert (plan.attempt, plan.spent.total_tokens, plan.spent.cost_usd) == (1, 1100, USD_OF_100)
    assert await charged(database, run) == [("msg_1", "partial", 100)]


async def test_messages_of_a_later_attempt_are_in_progress(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    earlier, later = used(100, key), used(50, key, attempt=1)
    await lose_machine(database, tmp_path / "lost", earlier, later)
    async with a_machine(database, tmp_path / "here") as here:
        await here.take_over(earlier.run, attempt=0)

    assert await charged(database, earlier.run) == [("msg_1", "partial", 100)]
    assert await rows(database) == 1


async def test_a_message_whose_end_was_written_is_recovered(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with a_machine(database, tmp_path / "lost") as lost:
        lost.queue.start_message(used(16, key, basis="partial", output_estimated=True))
        lost.queue.complete_message(used(90, key))
        await lost.write_rows()
    async with a_machine(database, tmp_path / "here") as here:
        await here.take_over(used(0, key).run)

    (receipt,) = await receipts_of(database, used(0, key).run)
    assert (receipt.basis, receipt.output_estimated, receipt.output_tokens) == ("recovered", False, 90)


@pytest.mark.parametrize(
    ("final", "more"),
    [
        ({"output": 150}, 50),
        ({"output": 100}, 0),
        ({"output": 96}, 0),
        ({"output": 150, "origin": "hidden"}, 50),
        ({"output": 150, "origin": "subagent", "parent_tool_call_id": "toolu_1"}, 50),
    ],
)
async def test_a_disk_that_returns_adds_the_difference(
    database: Database, key: KeyRecord, tmp_path: Path, final: dict[str, Any], more: int
) -> None:
    async with a_machine(database, tmp_path / "lost") as lost, a_machine(database, tmp_path / "x") as here:
        lost.queue.start_message(used(100, key))
        await lost.write_rows()
        await here.take_over(used(0, key).run)
        # Nobody has noticed yet that its receipt is stored: the disk has the rest.
        lost.queue.complete_message(used(final.pop("output"), key, **final))
    for _ in range(2):
        async with a_machine(database, tmp_path / "lost") as returned:
            await returned.recover()

    messages = await charged(database, used(0, key).run)
    assert messages == [("msg_1", "partial", 100), *([("msg_1~more", "recovered", more)] if more else [])]
    assert await cost(database, used(0, key).run) == USD_OF_100 + Decimal(more * 15) / 1_000_000


async def test_a_process_that_stood_still_adds_the_difference_and_writes_no_row(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with (
        a_machine(database, tmp_path / "frozen") as frozen,
        a_machine(database, tmp_path / "x") as here,
    ):
        frozen.queue.start_message(used(16, key))
        await frozen.write_rows()
        await here.take_over(used(0, key).run)
        frozen.queue.update_message(used(64, key))
        await frozen.write_rows()
        between = await rows(database)
        frozen.queue.record(used(60, key))
        await frozen.deliver()

    assert between == 0
    assert await charged(database, used(0, key).run) == [
        ("msg_1", "partial", 16),
        ("msg_1~more", "final", 44),
    ]


async def test_a_prompt_that_was_answered_after_all_is_charged_once(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    """Its row was charged as an unanswered prompt; the disk that returns has the answer."""
    prompt = a_fact(key, PLACEHOLDER, usage=TokenUsage(input_tokens=900), output_estimated=True)
    async with a_machine(database, tmp_path / "lost") as lost, a_machine(database, tmp_path / "x") as here:
        lost.queue.start_message(prompt)
        await lost.write_rows()
        lost.queue.start_message(used(100, key), prompt)
        await here.take_over(prompt.run)
    async with a_machine(database, tmp_path / "lost") as returned:
        with capture_logs() as logs:
            await returned.recover()
            await returned.recover()
    corrected = await correct(database, PriceList(), used_since=prompt.at)

    assert [each[:2] for each in await charged(database, prompt.run)] == [
        (PLACEHOLDER, "partial"),
        (PLACEHOLDER, "adjustment"),
        ("msg_1", "partial"),
    ]
    assert await cost(database, prompt.run) == USD_OF_100
    assert corrected.adjusted == 0
    assert [entry["event"] for entry in logs] == ["journal.recovered", "receipt.void"]


async def test_a_voided_message_is_not_charged_by_the_next_process(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    """Its process is killed before its row is removed, and the journal is there."""
    run = await a_run_elsewhere(database, key)
    async with a_machine(database, tmp_path) as killed:
        killed.queue.start_message(used(0, key))
        await killed.write_rows()
        killed.queue.void_message(used(0, key))
    async with a_machine(database, tmp_path) as here:
        await here.take_over(run)
        between = await rows(database)
        await here.recover()

    assert between == 1
    assert await rows(database) == 0
    assert await charged(database, run) == []
    assert JournalDirectory(tmp_path).names() == []


async def test_a_server_that_stops_leaves_no_row_of_a_voided_message(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with a_machine(database, tmp_path) as machine:
        machine.queue.start_message(used(0, key))
        await machine.write_rows()
        machine.queue.void_message(used(0, key))
        await machine.rows.aclose()

    assert await rows(database) == 0


async def test_only_messages_of_runs_in_progress_stay(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    run = await a_run_elsewhere(database, key)
    await lose_machine(database, tmp_path / "lost", used(100, key))
    async with a_machine(database, tmp_path / "here") as here:
        await here.sweep()
        running = await charged(database, run)
        async with database.transaction() as tx:
            await claim_run(tx, run, process_id=ELSEWHERE)
        await here.rows.sweep()
        recently_written = len(here.queue)
        await here.sweep()
        resumed = await charged(database, run)
        await admin.execute("UPDATE runs SET status = 'failed', ended_at = now()")
        await lose_machine(database, tmp_path / "other", used(50, key, attempt=1))
        await here.sweep()
        ended = await charged(database, run)

    assert (running, recently_written) == ([], 0)
    assert resumed == [("msg_1", "partial", 100)]
    assert sorted(ended) == [("msg_1", "partial", 50), ("msg_1", "partial", 100)]
    assert await rows(database) == 0


async def test_a_row_adds_nothing_to_a_receipt(database: Database, key: KeyRecord, tmp_path: Path) -> None:
    """Its output is an estimate, and may be higher than what was counted in the end."""
    async with database.write() as tx:
        await write_open_messages(tx, [OpenMessage(used(112, key), is_complete=False)])
    async with a_machine(database, tmp_path) as machine:
        await machine.rows.sweep(age_s=0)
        async with database.transaction() as tx:
            other = await a_receipt(machine, used(100, key))
            await insert_receipts(tx, [other])
        await machine.deliver()

    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]
    assert await rows(database) == 0


async def test_a_row_that_is_removed_before_its_receipt_is_stored_is_not_charged(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with a_machine(database, tmp_path / "a") as frozen, a_machine(database, tmp_path / "b") as here:
        frozen.queue.start_message(used(0, key))
        await frozen.write_rows()
        await here.rows.sweep(age_s=0)
        frozen.queue.void_message(used(0, key))
        await frozen.write_rows()
        await here.deliver()

    assert await charged(database, used(0, key).run) == []


async def a_receipt(machine: Machine, fact: UsageFact) -> Any:
    """The receipt that another process makes of a fact."""
    machine = Machine.on(machine.database, machine.journal._directory / "other")
    machine.queue.record(fact)
    (pending,) = machine.queue.first(1)
    machine.journal.close()
    return pending.receipt


@pytest.mark.parametrize("was_written", [False, True])
async def test_a_row_that_is_written_while_its_receipt_is_stored_is_not_charged(
    database: Database, key: KeyRecord, tmp_path: Path, *, was_written: bool
) -> None:
    async with a_machine(database, tmp_path / "a") as frozen, a_machine(database, tmp_path / "b") as here:
        frozen.queue.start_message(used(16, key))
        if was_written:
            await frozen.write_rows()
            frozen.queue.update_message(used(32, key))
        async with database.transaction() as tx:
            await insert_receipts(tx, [await a_receipt(here, used(100, key))])
            writing = asyncio.create_task(frozen.write_rows())
            # Until it is done, or waits for this transaction.
            await asyncio.wait({writing}, timeout=0.1)
        await writing
        await here.sweep()
        await here.sweep()

    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]
    assert await rows(database) == 0


async def test_a_receipt_that_is_stored_while_its_row_is_written_is_not_charged_again(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with a_machine(database, tmp_path / "a") as here:
        async with database.transaction() as tx:
            await write_open_messages(tx, [OpenMessage(used(16, key), is_complete=False)])
            here.queue.record(used(100, key))
            await here.deliver()
        between = await rows(database)
        await here.sweep()

    assert between == 1
    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]
    assert await rows(database) == 0


async def test_a_row_that_the_database_refuses_is_given_up(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    refused = replace(used(16, key, "msg_bad"), run=RunKey(key.account_id, RunId("run-\x00")))
    async with a_machine(database, tmp_path) as machine:
        machine.queue.start_message(refused)
        machine.queue.start_message(used(16, key))
        with capture_logs() as logs:
            await machine.write_rows()
            machine.queue.update_message(replace(refused, usage=TokenUsage(output_tokens=32)))
            await machine.write_rows()
        machine.queue.record(used(100, key))
        await machine.deliver()

    assert [entry["event"] for entry in logs] == ["open_message.refused"]
    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]


async def test_receipts_are_stored_although_rows_cannot_be_written(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    async with a_machine(database, tmp_path) as machine:
        machine.queue.start_message(used(16, key, "msg_open"))
        machine.queue.start_message(used(16, key))
        machine.queue.record(used(100, key))
        await admin.execute("ALTER TABLE open_messages ADD CHECK (false) NOT VALID")
        with capture_logs() as logs:
            await machine.write_rows()
        await machine.deliver()

    assert [entry["event"] for entry in logs] == ["open_message.refused"]
    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]


async def test_a_row_that_cannot_be_read_blocks_no_other(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    await lose_machine(database, tmp_path / "lost", used(100, key, "msg_1"), used(100, key, "msg_2"))
    await admin.execute("UPDATE open_messages SET fact = '{}' WHERE source_reference LIKE '%msg_1'")
    async with a_machine(database, tmp_path / "here") as here:
        with capture_logs() as logs:
            await here.sweep()

    assert [entry["event"] for entry in logs] == ["receipt.recovery_failed", "open_message.recovered"]
    assert await charged(database, used(0, key).run) == [("msg_2", "partial", 100)]


async def test_a_server_writes_its_messages_and_charges_those_that_were_left(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    await lose_machine(database, tmp_path / "lost", used(100, key, "msg_left"))
    await admin.execute("UPDATE open_messages SET updated_at = now() - interval '1 hour'")
    async with a_machine(database, tmp_path) as machine:
        machine.queue.start_message(used(16, key))
        machine.seconds += 1
        working = asyncio.create_task(machine.rows.work())
        async with asyncio.timeout(20):
            await machine.queue.wait_not_empty()
        await machine.deliver()
        working.cancel()
        await asyncio.wait({working})

    assert await charged(database, used(0, key).run) == [("msg_left", "partial", 100)]
    assert await rows(database) == 1


async def test_the_ledger_is_debited_by_what_a_lost_machine_had_begun(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    await lose_machine(database, tmp_path / "lost", used(100, key))
    async with a_machine(database, tmp_path / "a") as one, a_machine(database, tmp_path / "b") as two:
        # Both find it at once.
        await asyncio.gather(one.sweep(), two.sweep())

    assert (await CreditLedger(database).balance(key.account_id)).balance == -45_000
