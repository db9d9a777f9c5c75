"""Whatever the database answers, a receipt arrives once it can, without a restart."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from app.auth.records import KeyRecord
from app.billing.budgets.records import Amount
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import DeliveryState, ReceiptDelivery, debit_undelivered
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import find_run_receipts
from app.billing.reports.service import BillingReports
from app.executors.metering import BilledMetering
from app.gateway.answer_usage import MessageUsage
from app.gateway.call import CallCost
from app.ids import MessageId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.usage.records import Attribution, TokenUsage
from tests.factories import a_fact, a_plan, an_account
from tests.integration.receipt_queues import a_delivery, delivered_queue
from tests.integration.statements import execute, until
from tests.patience import PATIENCE_S

RUN_USD = Decimal("0.05")
STATES = (
    *("08006", "0A000", "25006", "28000", "3D000", "40001", "40P01", "42501", "42P01", "53100", "53300"),
    *("55P03", "57014", "57P01", "58030", "F0000", "P0001", "XX000"),
)
"""Of every class that does not blame a value."""

ANSWER = """
    CREATE TABLE answer (state text, model text);
    CREATE SEQUENCE attempts;
    CREATE FUNCTION answer() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE found text;
    BEGIN
        PERFORM nextval('attempts');
        SELECT state INTO found FROM answer WHERE model IS NULL OR model = NEW.model;
        IF found IS NOT NULL THEN RAISE EXCEPTION 'not now' USING ERRCODE = found; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER answer BEFORE INSERT ON charge_receipts FOR EACH ROW EXECUTE FUNCTION answer();
"""
"""Inserts of receipts fail with the SQLSTATE in the table, and are counted."""


async def test_what_a_stored_message_used_more_is_charged_once(database: Database, tmp_path: Path) -> None:
    key = await an_account(database)
    lower, higher = (a_fact(key, usage=TokenUsage(input_tokens=10, output_tokens=n)) for n in (5, 9))
    # Each by another process, the last one after a crash.
    for number, fact in enumerate((lower, higher, lower, higher)):
        async with a_delivery(database, tmp_path / str(number)) as (queue, _):
            queue.record(fact)
            async with asyncio.timeout(PATIENCE_S):
                await queue.flush(fact.run, within_s=PATIENCE_S)

    async with database.snapshot() as reader:
        receipts = await find_run_receipts(reader, lower.run.account_id, [lower.run.run_id])
    used = {each.usage_unit_id: (each.input_tokens, each.output_tokens) for each in receipts}
    assert used == {"msg_1": (10, 5), "msg_1~more": (0, 4)}
    assert sum(each.cost_usd for each in receipts) == (10 * 3 + 9 * 15) / Decimal(1_000_000)


async def test_each_charged_receipt_is_announced_once_whatever_stored_it(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    facts = [a_fact(key, f"msg_{number}") for number in range(3)]
    announced: list[str] = []

    def announce(receipts: Sequence[NewReceipt]) -> None:
        announced.extend(receipt.usage_unit_id for receipt in receipts)

    # One is stored with the end of its run, before it is delivered.
    async with a_delivery(database, tmp_path / "1", on_stored=announce) as (queue, _):
        queue.record(facts[0])
        async with database.transaction() as tx:
            await debit_undelivered(tx, queue, facts[0].run)
        queue.record(facts[1])
        await queue.flush(facts[0].run, within_s=PATIENCE_S)
    # Another process reports one of them again, as after a crash, and one is fenced.
    async with a_delivery(database, tmp_path / "2", on_stored=announce) as (queue, _):
        for statement in (RUN_ROW, TAKEOVER):
            await execute(database, statement, **facts[0].run._asdict(), key=key.id)
        for fact in (facts[1], facts[2]):
            queue.record(fact)
        await queue.flush(facts[0].run, within_s=PATIENCE_S)

    assert announced == ["msg_0", "msg_1"]
    assert await stored(database, facts[0].run) == announced


RUN_ROW = """
    INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request_hash, created_at)
    VALUES (:account_id, :run_id, :key, 'a:b', 'm', 'running', '', now())
"""
TAKEOVER = """
    INSERT INTO run_takeovers (account_id, run_id, attempt, at) VALUES (:account_id, :run_id, 0, '2020-01-01')
"""


async def attempts(admin: asyncpg.Connection) -> int:
    return int(await admin.fetchval("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM attempts"))


async def stored(database: Database, run: RunKey) -> list[str]:
    return [receipt.usage_unit_id for receipt in await BillingReports(database).of_run(run)]


async def test_no_sqlstate_loses_a_receipt(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    await admin.execute(ANSWER)
    async with delivered_queue(database, tmp_path) as queue:
        for state in STATES:
            await admin.execute("INSERT INTO answer VALUES ($1)", state)
            before = await attempts(admin)
            fact = a_fact(key, f"msg_{state}")
            queue.record(fact)

            async def tried_twice(before: int = before) -> bool:
                return await attempts(admin) >= before + 2

            await until(tried_twice)
            assert queue.pending_credits(fact.run).total > 0
            await admin.execute("TRUNCATE answer")
            await queue.flush(fact.run, within_s=PATIENCE_S)
            assert queue.pending_credits(fact.run).total == 0

        assert await stored(database, fact.run) == [f"msg_{state}" for state in STATES]


@pytest.mark.parametrize("state", ["22003", "23514", "XX000", "57014"])
async def test_a_receipt_that_alone_cannot_be_stored_delays_no_other(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path, state: str
) -> None:
    await admin.execute(ANSWER)
    await admin.execute("INSERT INTO answer VALUES ($1, 'claude-opus-4-8')", state)
    bad, good = a_fact(key, "msg_bad", model="claude-opus-4-8"), a_fact(key, "msg_good")

    with capture_logs() as logs:
        async with delivered_queue(database, tmp_path) as queue:
            queue.record(bad)
            queue.record(good)
            await until(lambda: _has(database, bad.run, ["msg_good"]))
            counted = queue.pending_credits(bad.run).total
            await admin.execute("TRUNCATE answer")
            await until(lambda: _has(database, bad.run, ["msg_good", "msg_bad"]))
            await queue.wait_delivered(key.account_id, within_s=PATIENCE_S)

            assert counted > 0 == queue.pending_credits(bad.run).total

    alarms = {entry["event"] for entry in logs if entry["log_level"] in {"error", "critical"}}
    assert alarms == {"receipt.refused" if state.startswith("2") else "receipts.delivery_failed"}


async def _has(database: Database, run: RunKey, messages: list[str]) -> bool:
    return sorted(await stored(database, run)) == sorted(messages)


async def test_a_refused_receipt_keeps_no_segment_of_the_journal(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    await admin.execute(ANSWER)
    await admin.execute("INSERT INTO answer VALUES ('23514', 'claude-opus-4-8')")
    bad = a_fact(key, "msg_bad", model="claude-opus-4-8")

    async with delivered_queue(database, tmp_path, refused_interval_s=0.05) as queue:
        queue.record(bad)
        for number in range(60):
            queue.record(a_fact(key, f"msg_{number}", run="run-2"))
            await queue.flush(RunKey(key.account_id, RunId("run-2")), within_s=PATIENCE_S)
        await until(lambda: _is_alone(tmp_path, queue))
        assert queue.pending_credits(bad.run).total > 0

    successor = Journal(tmp_path, new_uuid())
    assert [fact.message_id for fact in successor.recover()] == ["msg_bad"]
    successor.close()


async def _is_alone(directory: Path, queue: ReceiptQueue) -> bool:
    """Whether the journal has shrunk although a receipt is still refused."""
    segments = await asyncio.to_thread(lambda: list(directory.glob("*.journal")))
    return queue.refused + len(queue) == 1 and len(segments) <= 3


async def test_the_journal_is_synced_without_anybody_waiting(database: Database, tmp_path: Path) -> None:
    journal = Journal(tmp_path, new_uuid())
    queue = ReceiptQueue(journal, PriceList())
    syncing = asyncio.create_task(ReceiptDelivery(database, queue).keep_synced())

    async def is_synced() -> bool:
        return journal.unsynced_bytes == 0

    for number in range(2):
        queue.start_message(a_fact(await an_account(database, f"account-{number}")))
        assert journal.unsynced_bytes > 0
        await until(is_synced)
    syncing.cancel()
    await asyncio.wait({syncing})
    journal.close()


async def test_the_state_of_the_delivery_is_known(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    await admin.execute(ANSWER)
    async with a_delivery(database, tmp_path) as (queue, delivery):

        async def becomes(state: DeliveryState) -> None:
            async def is_reached() -> bool:
                return delivery.state == state

            await until(is_reached)

        await becomes("ok")
        await admin.execute("INSERT INTO answer VALUES ('53100')")
        queue.record(a_fact(key))
        await becomes("delayed")
        await admin.execute("UPDATE answer SET state = '22003'")
        await becomes("refused")
        await admin.execute("TRUNCATE answer")
        await becomes("ok")

    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "old.journal").touch()
    async with a_delivery(database, tmp_path) as (_, delivery):
        assert delivery.state == "damaged"


@pytest.mark.parametrize("fault", ["read-only", "revoked"])
async def test_a_database_that_refuses_for_a_while_gets_everything_afterwards(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path, fault: str
) -> None:
    name = await admin.fetchval("SELECT current_database()")
    if fault == "read-only":
        begin = f"ALTER DATABASE {name} SET default_transaction_read_only = on"
        end = f"ALTER DATABASE {name} RESET default_transaction_read_only"
    else:
        begin = f"CREATE ROLE r_{name}; ALTER DATABASE {name} SET role = r_{name}"
        end = f"ALTER DATABASE {name} RESET role; DROP ROLE r_{name}"
    facts = [a_fact(key, f"msg_{number}") for number in range(5)]

    async with delivered_queue(database, tmp_path) as queue:
        queue.record(facts[0])
        await queue.flush(facts[0].run, within_s=PATIENCE_S)
        await admin.execute(begin)
        await _reconnect(admin)
        for fact in facts[1:]:
            queue.record(fact)
        await queue.flush(facts[0].run, within_s=1.5)
        during = await admin.fetchval("SELECT array_agg(usage_unit_id) FROM charge_receipts")
        pending = queue.pending_credits(facts[0].run).total
        await _reconnect(admin)
        await admin.execute(end)
        await _reconnect(admin)
        await queue.flush(facts[0].run, within_s=PATIENCE_S)

        assert (during, pending) == (["msg_0"], 4 * 45_000)
        assert await stored(database, facts[0].run) == [fact.message_id for fact in facts]


async def _reconnect(admin: asyncpg.Connection) -> None:
    """Settings of a database apply to new connections."""
    await admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


@pytest.mark.parametrize("fault", ["25006", "23514", "P0001"])
async def test_credit_is_not_spent_twice_while_receipts_cannot_be_stored(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path, fault: str
) -> None:
    """The ledger answers, and the debits do not arrive."""
    ledger, prices = CreditLedger(database), PriceList()
    await ledger.change_mode(key.account_id, "prepaid")
    await ledger.grant(key.account_id, prices.credits_for(Decimal("0.50")))
    await admin.execute(ANSWER)
    await admin.execute("INSERT INTO answer VALUES ($1)", fault)
    by = Attribution(key.id, "claude_agents:assistant", None)
    usage, spent = TokenUsage(input_tokens=10_000, output_tokens=1_300), Decimal(0)

    async with delivered_queue(database, tmp_path) as queue:
        metering = BilledMetering(queue, ledger, prices)
        for number in range(30):
            run = RunKey(key.account_id, RunId(f"run-{number}"))
            plan = a_plan(run=run, attribution=by, reserved=Amount(0, 0))
            hooks = metering.hooks_for(plan, executor_type="claude_sdk")
            if await hooks.check_credit(CallCost(maximum=RUN_USD, minimum=RUN_USD)) is not None:
                break
            message = MessageUsage(MessageId("msg_1"), "claude-sonnet-4-6", usage, complete=True)
            spent += hooks.cost_of(message)
            hooks.on_start(message, None)
            hooks.on_usage(message)
            await queue.flush(run, within_s=0.3)
            async with database.transaction() as tx:
                await ledger.release(tx, run)
        await admin.execute("TRUNCATE answer")

        async def all_stored() -> bool:
            return bool(await admin.fetchval("SELECT count(*) = $1 FROM charge_receipts", number))

        await until(all_stored)

    assert Decimal("0.4") < spent <= Decimal("0.50") + RUN_USD
