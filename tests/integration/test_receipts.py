import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.prices.model_price import ModelPrice, OperatorPrice, Rate
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import NewReceipt, ReceiptFilter
from app.billing.receipts.repository import insert_receipts
from app.billing.receipts.repricing import reprice
from app.billing.reports.service import BillingReports
from app.ids import new_uuid
from app.platform.db import Database, StatementFailed
from app.platform.pagination import PageRequest
from app.usage.records import TokenUsage, UsageFact
from tests.factories import a_fact, an_account
from tests.integration.receipt_queues import delivered_queue
from tests.integration.statements import execute, rows
from tests.patience import PATIENCE_S


@pytest_asyncio.fixture
async def queue(database: Database, tmp_path: Path) -> AsyncIterator[ReceiptQueue]:
    async with delivered_queue(database, tmp_path / "journal") as queue:
        yield queue


async def write(queue: ReceiptQueue, *facts: UsageFact) -> None:
    for fact in facts:
        queue.record(fact)
    for run in {fact.run for fact in facts}:
        await queue.flush(run, within_s=PATIENCE_S)


async def debits(database: Database) -> tuple[int, int]:
    ((count, total),) = await rows(
        database, "SELECT count(*), -sum(credits)::bigint FROM credit_ledger WHERE kind = 'debit'"
    )
    return count, total


async def test_a_second_delivery_inserts_nothing(
    database: Database, key: KeyRecord, queue: ReceiptQueue
) -> None:
    fact = a_fact(key)

    for _ in range(3):
        await write(queue, fact)

    (receipt,) = await BillingReports(database).of_run(fact.run)
    assert receipt.source_reference == "run-1/0/msg_1"
    assert (receipt.cost_usd, receipt.charged_credits) == (Decimal("0.0045"), 45_000)
    assert (receipt.source_system, receipt.executor_type) == ("anthropic_sdk", "claude_sdk")
    assert receipt.api_key_id == key.id
    assert receipt.price_version.startswith("genai-prices ")
    assert await debits(database) == (1, 45_000)


async def test_attempts_are_kept_apart(database: Database, key: KeyRecord, queue: ReceiptQueue) -> None:
    await write(queue, a_fact(key, attempt=0), a_fact(key, attempt=1))

    receipts = await BillingReports(database).of_run(a_fact(key).run)

    assert [receipt.source_reference for receipt in receipts] == ["run-1/0/msg_1", "run-1/1/msg_1"]


async def test_the_same_ids_in_two_accounts_are_charged_to_both(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    other = await an_account(database, "globex")
    crashed = Journal(tmp_path / "journal", new_uuid())
    for owner in (key, other):
        crashed.start_message(a_fact(owner, "msg_dead"))
        crashed.complete_message(a_fact(owner, "msg_dead"))
    crashed.close()

    async with delivered_queue(database, tmp_path / "journal") as queue:
        for owner in (key, other):
            queue.start_message(a_fact(owner))
        for owner in (key, other):
            queue.record(a_fact(owner, model="claude-unheard-of-9"))
        for owner in (key, other):
            queue.recover()
            await queue.flush(a_fact(owner).run, within_s=PATIENCE_S)
    rate = Rate(Decimal(1))
    price = ModelPrice("file x", rate, rate, rate, rate, rate)
    own = OperatorPrice("claude-unheard-of-9", a_fact(key).at - timedelta(days=1), price)
    assert (await reprice(database, PriceList([own]))).adjusted == 2

    for owner in (key, other):
        receipts = await BillingReports(database).of_run(a_fact(owner).run)
        assert sorted((r.usage_unit_id, r.basis) for r in receipts) == [
            ("msg_1", "adjustment"),
            ("msg_1", "unpriced"),
            ("msg_dead", "recovered"),
        ]
    assert (await debits(database))[0] == 6


async def test_concurrent_deliveries_and_broken_connections_charge_once(
    database_url: str, database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    rng = random.Random(7)  # noqa: S311 - nothing secret
    facts = [a_fact(key, f"msg_{n}", usage=TokenUsage(n + 1, 2 * n)) for n in range(150)]
    deliveries = [fact for fact in facts for _ in range(rng.randint(1, 4))]
    rng.shuffle(deliveries)
    done = asyncio.Event()

    async def connection_killer() -> None:
        admin = await asyncpg.connect(database_url)
        while not done.is_set():
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.2"
            )
            await asyncio.sleep(0.02)
        await admin.close()

    killing = asyncio.create_task(connection_killer())
    async with AsyncExitStack() as stack:
        queues = [
            await stack.enter_async_context(delivered_queue(database, tmp_path / "journal")) for _ in range(4)
        ]
        for number, fact in enumerate(deliveries):
            rng.choice(queues).record(fact)
            if number % 5 == 0:
                await asyncio.sleep(rng.random() / 100)
        for each in queues:
            await each.flush(facts[0].run, within_s=PATIENCE_S)
        done.set()
        await killing

    receipts = await BillingReports(database).of_run(facts[0].run)
    assert sorted(r.usage_unit_id for r in receipts) == sorted(f.message_id for f in facts)
    assert sum(r.input_tokens for r in receipts) == sum(f.usage.input_tokens for f in facts)
    assert sum(r.output_tokens for r in receipts) == sum(f.usage.output_tokens for f in facts)
    assert await debits(database) == (150, sum(r.charged_credits for r in receipts))


@pytest.mark.parametrize(("rounds", "messages"), [(80, 1), (8, 60)])
async def test_transactions_that_insert_the_same_receipts_at_once_store_each_once(
    database: Database, key: KeyRecord, rounds: int, messages: int
) -> None:
    """As the delivery and the end of a run do: both may find the same receipts queued."""
    prices = PriceList()
    transactions = 4

    for attempt in range(rounds):
        facts = [a_fact(key, f"msg_{n}", attempt=attempt) for n in range(messages)]
        receipts = [
            NewReceipt.of(fact, prices.charge(BilledUsage.of(fact), at=fact.at), fact.basis) for fact in facts
        ]
        have_begun = asyncio.Barrier(transactions)

        async def insert(receipts: list[NewReceipt], have_begun: asyncio.Barrier) -> int:
            async with database.transaction() as tx:
                await tx.execute(text("SELECT 1"))
                await have_begun.wait()
                return len((await insert_receipts(tx, receipts)).charged)

        inserted = await asyncio.gather(
            *(insert(receipts[:: (-1) ** number], have_begun) for number in range(transactions))
        )

        assert sum(inserted) == len(facts)

    assert (await debits(database))[0] == rounds * messages


async def test_receipts_of_a_dead_process_are_delivered(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    crashed = Journal(tmp_path / "journal", new_uuid())
    crashed.start_message(a_fact(key, "msg_open"))
    crashed.start_message(a_fact(key, "msg_shut"))
    crashed.complete_message(a_fact(key, "msg_shut"))
    crashed.start_message(a_fact(key, "msg_done"))
    crashed.acknowledge([a_fact(key, "msg_done").key])
    crashed.close()

    async with delivered_queue(database, tmp_path / "journal") as queue:
        while not await BillingReports(database).of_run(a_fact(key).run):
            await asyncio.sleep(0.01)
        await queue.flush(a_fact(key).run, within_s=PATIENCE_S)

    receipts = await BillingReports(database).of_run(a_fact(key).run)
    assert [(r.usage_unit_id, r.basis, r.output_estimated) for r in receipts] == [
        ("msg_open", "partial", True),
        ("msg_shut", "recovered", False),
    ]
    assert list((tmp_path / "journal").iterdir()) == []


async def test_an_unpriced_message_is_charged_later_exactly_once(
    database: Database, key: KeyRecord, queue: ReceiptQueue
) -> None:
    fact = a_fact(key, model="claude-unheard-of-9")
    await write(queue, fact)
    (receipt,) = await BillingReports(database).of_run(fact.run)
    assert receipt.basis == "unpriced"
    assert receipt.cost_usd == 0
    assert receipt.input_tokens == 1000

    unknown = await reprice(database, PriceList())
    rate = Rate(Decimal(1))
    own = OperatorPrice(fact.model, fact.at, ModelPrice("file x", rate, rate, rate, rate, rate))
    first = await reprice(database, PriceList([own]))
    second = await reprice(database, PriceList([own]))

    assert unknown.still_unpriced == ("model=claude-unheard-of-9",)
    assert (first.adjusted, first.cost_usd, second.adjusted) == (1, Decimal("0.0011"), 0)
    untouched, adjustment = await BillingReports(database).of_run(fact.run)
    assert untouched == receipt
    assert (adjustment.basis, adjustment.input_tokens, adjustment.charged_credits) == (
        "adjustment",
        0,
        11_000,
    )
    totals = (await BillingReports(database).totals(key.account_id, ["run-1"]))["run-1"]
    assert (totals.receipts, totals.cost_usd) == (1, Decimal("0.0011"))
    assert await debits(database) == (2, 11_000)


@pytest.mark.parametrize("table", ["charge_receipts", "credit_ledger"])
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET account_id = NULL", "DELETE FROM {}", "TRUNCATE {} CASCADE"]
)
async def test_receipts_and_ledger_cannot_be_changed_or_deleted(
    database: Database, key: KeyRecord, queue: ReceiptQueue, table: str, statement: str
) -> None:
    await write(queue, a_fact(key))

    with pytest.raises(StatementFailed, match="never changed or deleted"):
        await execute(database, statement.format(table))

    assert len(await BillingReports(database).of_run(a_fact(key).run)) == 1


async def test_pages_are_stable_while_receipts_arrive(
    database: Database, key: KeyRecord, queue: ReceiptQueue
) -> None:
    reports = BillingReports(database)
    for number in range(7):
        await write(queue, a_fact(key, f"msg_{number}"))

    seen: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = await reports.search(key.account_id, ReceiptFilter(), PageRequest.of_uuids(3, cursor))
        seen += [receipt.usage_unit_id for receipt in page]
        await write(queue, a_fact(key, f"msg_late_{len(seen)}"))
        if cursor is None:
            break

    assert seen == [f"msg_{number}" for number in reversed(range(7))]


async def test_another_account_has_no_receipts_here(
    database: Database, key: KeyRecord, queue: ReceiptQueue
) -> None:
    await write(queue, a_fact(key))
    other = await an_account(database, "stranger")
    reports = BillingReports(database)

    assert await reports.of_run(a_fact(other).run) == []
    assert await reports.search(other.account_id, ReceiptFilter(), PageRequest(10)) == ([], None)
    assert (await reports.totals(other.account_id, ["run-1"]))["run-1"].receipts == 0
    assert (await reports.totals(key.account_id, ["run-1"]))["run-1"].cost_usd == Decimal("0.0045")
