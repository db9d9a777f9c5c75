"""Receipts per second through queue and delivery, compared with plain inserts into the same table.

Runtally journals a fact, prices it, inserts the receipt, debits the account, updates the rollups and adds
the entry to the account's hash chain. In alternation asyncpg inserts the same rows, prepared, into the same
table, without debit and chain: row by row with a transaction each, 500 rows per transaction by
`executemany`, and 500 rows in one statement. The table's triggers fire for all of them. Then messages arrive
at a steady rate, and each is timed from `record` until its receipt is committed.

    .venv/bin/python -m benchmarks.receipts --rounds 5
"""

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql import JSONB

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.tables import charge_receipts
from app.ids import MessageId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.usage.records import Attribution, TokenUsage, UsageFact

BATCH = 500
FLUSH_TIMEOUT_S = 60.0
AT_ONCE = 20
"""Facts recorded before the event loop runs, as if so many runs reported at the same moment."""

MODELS = ("claude-sonnet-5-5", "claude-haiku-4-5")
GRAPHS = ("claude_agents:assistant", "claude_agents:analyst")

_TABLE = charge_receipts.c
_DIALECT = registry.load("postgresql")()
_COLUMNS = ", ".join(column.name for column in _TABLE)
_TYPES = [column.type.compile(dialect=_DIALECT) for column in _TABLE]
_PARAMETERS = ", ".join(f"${number + 1}" for number in range(len(_TYPES)))
_ARRAYS = ", ".join(f"${number + 1}::{kind}[]" for number, kind in enumerate(_TYPES))
INSERT = f"INSERT INTO charge_receipts ({_COLUMNS}) VALUES ({_PARAMETERS})"  # noqa: S608 - constants
INSERT_MANY = f"INSERT INTO charge_receipts ({_COLUMNS}) SELECT * FROM unnest({_ARRAYS})"  # noqa: S608

_REPORTED = {
    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 200},
    "inference_geo": "global",
    "service_tier": "standard",
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
}

_numbers = itertools.count()


@dataclass(slots=True)
class Rates:
    """Receipts per second, one entry per round."""

    name: str
    each: list[float] = field(default_factory=list)

    async def time(self, work: Awaitable[None], receipts: int) -> None:
        """Execute it and record its speed."""
        began = time.perf_counter()
        await work
        self.each.append(receipts / (time.perf_counter() - began))


@asynccontextmanager
async def delivered_queue(database: Database, directory: Path) -> AsyncIterator[ReceiptQueue]:
    """A queue whose receipts are delivered, as in a server process."""
    journal = Journal(directory, new_uuid())
    queue = ReceiptQueue(journal, PriceList())
    delivery = ReceiptDelivery(database, queue)
    working = asyncio.create_task(delivery.work())
    try:
        yield queue
    finally:
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
        await delivery.aclose()
        journal.close()


def facts_of(key: KeyRecord, count: int) -> list[UsageFact]:
    """Messages of a new run."""
    run = RunKey(key.account_id, RunId(f"run-{next(_numbers)}"))
    return [
        UsageFact(
            run=run,
            attempt=0,
            message_id=MessageId(f"msg_{number:024}"),
            attribution=Attribution(key.id, GRAPHS[number // 2 % 2], "req-1"),
            model=MODELS[number % 2],
            usage=TokenUsage(1000 + number, 100, 5000, 200),
            reported={"input_tokens": 1000 + number, "output_tokens": 100, **_REPORTED},
            stop_reason="end_turn",
            executor_type="claude_sdk",
        )
        for number in range(count)
    ]


def rows_of(facts: Sequence[UsageFact]) -> list[tuple[Any, ...]]:
    """Their receipts as prepared rows: the same columns with the same values."""
    prices = PriceList()
    return [
        tuple(_values(NewReceipt.of(fact, prices.charge(BilledUsage.of(fact), at=fact.at), "final"), fact.at))
        for fact in facts
    ]


def _values(receipt: NewReceipt, at: datetime) -> Iterator[Any]:
    for column in _TABLE:
        value = at if column.name == "created_at" else getattr(receipt, column.name)
        yield json.dumps(value) if isinstance(column.type, JSONB) and value is not None else value


async def one_by_one(connection: asyncpg.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """One transaction per row."""
    for row in rows:
        await connection.execute(INSERT, *row)


async def in_batches(connection: asyncpg.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """`executemany`, one transaction per batch."""
    for start in range(0, len(rows), BATCH):
        async with connection.transaction():
            await connection.executemany(INSERT, rows[start : start + BATCH])


async def in_statements(connection: asyncpg.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """One statement and transaction per batch."""
    for start in range(0, len(rows), BATCH):
        columns = zip(*rows[start : start + BATCH], strict=True)
        await connection.execute(INSERT_MANY, *(list(column) for column in columns))


async def written(queue: ReceiptQueue, facts: Sequence[UsageFact]) -> None:
    """Through Runtally: recorded and flushed."""
    for number, fact in enumerate(facts):
        queue.record(fact)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    await queue.flush(facts[0].run, within_s=FLUSH_TIMEOUT_S)
    if queue.pending_credits(facts[0].run).total:
        message = f"receipts did not settle within {FLUSH_TIMEOUT_S:.0f} s"
        raise TimeoutError(message)


@asynccontextmanager
async def without_chain(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """The chain's trigger does not fire while the body runs."""
    trigger = "TRIGGER credit_ledger_is_chained"
    await connection.execute(f"ALTER TABLE credit_ledger DISABLE {trigger}")
    try:
        yield
    finally:
        await connection.execute(f"ALTER TABLE credit_ledger ENABLE {trigger}")


async def throughput(
    connection: asyncpg.Connection, queue: ReceiptQueue, key: KeyRecord, *, rounds: int, receipts: int
) -> None:
    """Measure every variant in every round and print the table."""
    single, many = Rates("raw, a transaction a row"), Rates(f"raw, executemany of {BATCH}")
    statement, ours = Rates(f"raw, one statement of {BATCH}"), Rates("Runtally, queue and delivery")
    unchained = Rates("the same without hash chain")
    variants = (single, many, statement, ours, unchained)
    few = max(1, receipts // 10)
    for number in range(rounds + 1):
        rows, facts = rows_of(facts_of(key, few)), facts_of(key, receipts)
        await single.time(one_by_one(connection, rows), few)
        rows = rows_of(facts_of(key, receipts))
        await many.time(in_batches(connection, rows), receipts)
        rows.clear()
        await ours.time(written(queue, facts), receipts)
        async with without_chain(connection):
            await unchained.time(written(queue, facts_of(key, receipts)), receipts)
        rows = rows_of(facts_of(key, receipts))
        await statement.time(in_statements(connection, rows), receipts)
        if number == 0:
            # The first round does not count: it prepares statements and warms caches.
            for rates in variants:
                rates.each.clear()
    mine = statistics.median(ours.each)
    print(f"receipts a second, {rounds} interleaved rounds of {receipts:,} ({few:,} one by one)")
    print(f"{'':30}{'median':>10}{'best':>10}{'Runtally is':>14}")
    for rates in variants:
        median = statistics.median(rates.each)
        print(f"{rates.name:30}{median:10,.0f}{max(rates.each):10,.0f}{mine / median:13.2f}x")


async def latency(queue: ReceiptQueue, key: KeyRecord, *, rate: float, seconds: float) -> None:
    """Messages at a steady rate, each of a run of its own."""
    times: list[float] = []

    async def one(fact: UsageFact) -> None:
        began = time.perf_counter()
        queue.record(fact)
        await queue.flush(fact.run, within_s=FLUSH_TIMEOUT_S)
        times.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as messages:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            messages.create_task(one(facts_of(key, 1)[0]))
    times.sort()
    print(f"\nfrom record() to committed, {len(times):,} messages at {rate:.0f} a second, in ms")
    print(f"{'p50':>8}{'p99':>8}{'max':>8}")
    print(f"{statistics.median(times):8.1f}{times[int(len(times) * 0.99)]:8.1f}{times[-1]:8.1f}")


async def check(connection: asyncpg.Connection) -> None:
    """Check that every receipt was debited and rolled up exactly once."""
    debits = await connection.fetchval("SELECT -sum(credits) FROM credit_ledger")
    charged = await connection.fetchval(
        "SELECT sum(charged_credits) FROM charge_receipts WHERE id IN (SELECT receipt_id FROM credit_ledger)"
    )
    receipts = await connection.fetchval("SELECT count(*) FROM charge_receipts")
    rolled = await connection.fetchval("SELECT sum(receipts) FROM usage_rollups")
    if (debits, receipts) != (charged, rolled):
        message = f"debited {debits} of {charged}, rolled up {rolled} of {receipts}"
        raise AssertionError(message)


async def main(*, rounds: int, receipts: int, rate: float, seconds: float) -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        directory = Path(name)
        async with EmbeddedPostgres.start(directory) as postgres:
            database = await Database.open(postgres.url)
            connection = await asyncpg.connect(postgres.url)
            try:
                await database.migrate()
                key, _ = await Accounts(database).create_key("benchmark", ["receipts:read"])
                # As the server does when it has started.
                gc.freeze()
                async with delivered_queue(database, directory / "journal") as queue:
                    await throughput(connection, queue, key, rounds=rounds, receipts=receipts)
                    await latency(queue, key, rate=rate, seconds=seconds)
                await check(connection)
            finally:
                await connection.close()
                await database.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of every way (default: %(default)s)")
    parser.add_argument("--receipts", type=int, default=5000, help="in a round (default: %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=200, help="messages a second for latency (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=15, help="of latency (default: %(default)s)")
    asyncio.run(main(**vars(parser.parse_args())))
