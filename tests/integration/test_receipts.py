import asyncio
import random
from collections.abc import AsyncIterator
from decimal import Decimal

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.auth.repository import KeyRecord
from app.billing.receipts import Receipts, ReceiptWriter
from app.billing.repository import ReceiptFilter
from app.db import Database
from app.errors import Invalid
from app.usage import TokenUsage
from tests.factories import a_fact, an_account, an_attribution


@pytest_asyncio.fixture
async def key(database: Database) -> AsyncIterator[KeyRecord]:
    yield await an_account(database)


def writer(database: Database, markup: str = "1") -> ReceiptWriter:
    return ReceiptWriter(database, markup=Decimal(markup))


async def test_a_second_delivery_writes_nothing(database: Database, key: KeyRecord) -> None:
    fact, whose = a_fact(key), an_attribution(key)

    written = [await writer(database).record(fact, whose) for _ in range(3)]

    assert written == [True, False, False]
    (receipt,) = await Receipts(database).of_run(fact.run)
    assert receipt.source_reference == "run-1/0/msg_1"
    assert (receipt.cost_usd, receipt.charged_credits) == (Decimal("0.0045"), 45_000)
    assert (receipt.source_system, receipt.executor_type) == ("anthropic_sdk", "claude_sdk")
    assert receipt.api_key_id == key.id


async def test_attempts_are_kept_apart(database: Database, key: KeyRecord) -> None:
    for attempt in (0, 1):
        await writer(database).record(a_fact(key, attempt=attempt), an_attribution(key))

    receipts = await Receipts(database).of_run(a_fact(key).run)

    assert [receipt.source_reference for receipt in receipts] == ["run-1/0/msg_1", "run-1/1/msg_1"]


async def test_concurrent_deliveries_and_broken_connections_charge_once(
    database_url: str, database: Database, key: KeyRecord
) -> None:
    dice = random.Random(7)  # noqa: S311 - nothing secret
    facts = [a_fact(key, f"msg_{n}", usage=TokenUsage(n + 1, 2 * n)) for n in range(60)]
    deliveries = [fact for fact in facts for _ in range(dice.randint(1, 4))]
    dice.shuffle(deliveries)
    done = asyncio.Event()

    async def saboteur() -> None:
        admin = await asyncpg.connect(database_url)
        while not done.is_set():
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.2"
            )
            await asyncio.sleep(0.02)
        await admin.close()

    async def impatient(delivery: int) -> None:
        task = asyncio.create_task(writer(database).record(deliveries[delivery], an_attribution(key)))
        if delivery % 7 == 0:
            await asyncio.sleep(dice.random() / 100)
            task.cancel()
            await asyncio.wait({task})
            # Whoever gave up delivers again: the journal's drainer will.
            task = asyncio.create_task(writer(database).record(deliveries[delivery], an_attribution(key)))
        await task

    sabotage = asyncio.create_task(saboteur())
    await asyncio.gather(*(impatient(delivery) for delivery in range(len(deliveries))))
    done.set()
    await sabotage

    receipts = await Receipts(database).of_run(facts[0].run)
    assert sorted(r.usage_unit_id for r in receipts) == sorted(f.message_id for f in facts)
    assert sum(r.input_tokens for r in receipts) == sum(f.usage.input_tokens for f in facts)
    assert sum(r.output_tokens for r in receipts) == sum(f.usage.output_tokens for f in facts)


async def test_without_the_unique_key_the_same_race_charges_twice(database: Database) -> None:
    """The mutant that shows the test above can fail: look first, then insert."""
    async with database.transaction() as tx:
        await tx.execute(text("CREATE TABLE mutant (reference text)"))

    async def look_then_insert() -> None:
        async with database.transaction() as tx:
            seen = await tx.execute(text("SELECT 1 FROM mutant WHERE reference = 'run-1/0/msg_1'"))
            await asyncio.sleep(0.01)
            if seen.first() is None:
                await tx.execute(text("INSERT INTO mutant VALUES ('run-1/0/msg_1')"))

    await asyncio.gather(*(look_then_insert() for _ in range(6)))

    async with database.snapshot() as reader:
        rows = (await reader.execute(text("SELECT count(*) FROM mutant"))).scalar_one()
    assert rows > 1


async def test_a_message_of_an_unpriced_model_keeps_its_tokens(database: Database, key: KeyRecord) -> None:
    await writer(database).record(a_fact(key, model="claude-unheard-of-9"), an_attribution(key))

    (receipt,) = await Receipts(database).of_run(a_fact(key).run)
    assert receipt.cost_usd == 0
    assert (receipt.charged_credits, receipt.input_tokens) == (0, 1000)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charge_receipts SET charged_credits = 0",
        "DELETE FROM charge_receipts",
        "TRUNCATE charge_receipts",
    ],
)
async def test_a_receipt_is_never_changed(database: Database, key: KeyRecord, statement: str) -> None:
    await writer(database).record(a_fact(key), an_attribution(key))

    with pytest.raises(DBAPIError, match="never changed or deleted"):
        async with database.transaction() as tx:
            await tx.execute(text(statement))

    assert len(await Receipts(database).of_run(a_fact(key).run)) == 1


async def test_pages_are_stable_while_receipts_arrive(database: Database, key: KeyRecord) -> None:
    receipts = Receipts(database)
    for number in range(7):
        await writer(database).record(a_fact(key, f"msg_{number}"), an_attribution(key))

    seen: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = await receipts.search(key.account_id, ReceiptFilter(), limit=3, cursor=cursor)
        seen += [receipt.usage_unit_id for receipt in page]
        await writer(database).record(a_fact(key, f"msg_late_{len(seen)}"), an_attribution(key))
        if cursor is None:
            break

    assert seen == [f"msg_{number}" for number in reversed(range(7))]


async def test_another_account_has_no_receipts_here(database: Database, key: KeyRecord) -> None:
    await writer(database).record(a_fact(key), an_attribution(key))
    stranger = await an_account(database, "stranger")
    receipts = Receipts(database)

    assert await receipts.of_run(a_fact(stranger).run) == []
    assert await receipts.search(stranger.account_id, ReceiptFilter(), limit=10) == ([], None)
    assert (await receipts.totals(stranger.account_id, ["run-1"]))["run-1"].receipts == 0
    assert (await receipts.totals(key.account_id, ["run-1"]))["run-1"].cost_usd == Decimal("0.0045")


async def test_a_cursor_of_another_list_is_refused(database: Database, key: KeyRecord) -> None:
    with pytest.raises(Invalid, match="cursor"):
        await Receipts(database).search(
            key.account_id,
            ReceiptFilter(),
            limit=10,
            cursor="WyIyMDI2LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwgInJ1bi0xIl0",
        )
