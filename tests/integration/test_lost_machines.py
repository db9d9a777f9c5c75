"""A machine that is lost with its disk loses no bill, and a disk that returns charges nothing twice."""

import asyncio
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.repricing import correct
from app.platform.db import Database
from app.runs.requeueing.repository import requeue_run
from app.usage.records import TokenUsage
from tests.factories import a_fact
from tests.integration import run_service
from tests.integration.lost_machines import (
    PLACEHOLDER,
    USD_OF_100,
    a_machine,
    charged,
    cost,
    lose_machine,
    receipts_of,
    rows,
    used,
)
from tests.integration.run_process import a_run_elsewhere
from tests.unit.billing.receipts.journals import JournalDirectory


async def test_a_run_that_ends_is_charged_before_its_credit_is_released(
    open_core: run_service.OpenCore, database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with open_core() as core:
        run = await run_service.a_lost_run(core)
        await lose_machine(database, tmp_path / "lost", used(100, key))

        assert await core.recovery.recover() == 1

        # Nothing is delivered in this process: it was stored with the end of the run.
        (receipt,) = await receipts_of(database, run)
        balance = await core.process.ledger.balance(key.account_id)
    assert (receipt.basis, receipt.output_estimated, receipt.cost_usd) == ("partial", True, USD_OF_100)
    assert (balance.reserved, balance.balance) == (0, 10**9 - receipt.charged_credits)
    assert await rows(database) == 0


async def test_the_budget_of_the_next_attempt_counts_what_the_lost_machine_had_begun(
    open_core: run_service.OpenCore, database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with open_core() as core:
        run = await run_service.a_lost_run(core, run_service.RETRIED, "chat-1")
        await lose_machine(database, tmp_path / "lost", used(100, key))
        record = await core.service.get(run)
        delivering = asyncio.create_task(ReceiptDelivery(database, core.process.receipts).work())

        plan, _ = await core.starter._plan(replace(record, attempt=1), None)

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
        # The machine does not know that a receipt is stored; its disk has the rest.
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
            await requeue_run(tx, run)
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


async def test_the_ledger_is_debited_by_what_a_lost_machine_had_begun(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    await lose_machine(database, tmp_path / "lost", used(100, key))
    async with a_machine(database, tmp_path / "a") as one, a_machine(database, tmp_path / "b") as two:
        # Both find it at once.
        await asyncio.gather(one.sweep(), two.sweep())

    assert (await CreditLedger(database).balance(key.account_id)).balance == -45_000
