"""A database of three years beside one with few receipts: what a tenant notices of the size.

Fills two temporary PostgreSQL servers (`benchmarks.filled_years`), and executes each operation in both
alternately: compare the ratios of the medians. What is measured are operations of an account that has as many
runs and receipts in both, spread over the same three years; those of others are more in the big one. A ratio
of 1 says that the account does not notice the size.

    .venv/bin/python -m benchmarks.years --receipts 20000000
"""

import argparse
import asyncio
import itertools
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from app.auth.records import KeyRecord
from app.billing.chain.export import (
    account_record,
    header_record,
    link_record,
    linked_rows,
    unchained_records,
)
from app.billing.chain.sums.comparison import wrong_sums
from app.billing.chain.verifier import ExportVerifier
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import find_used_since, insert_receipts
from app.billing.reports.records import UsageFilter
from app.billing.reports.service import BillingReports, UsageQuery
from app.ids import RunId, RunKey, new_uuid
from app.platform.pagination import Cursor, PageRequest
from app.platform.storage.records import Retention
from app.platform.storage.service import StorageQuota
from app.runs.deletion.service import RunDeletion
from app.runs.dispatch.insertion.records import AtOnce
from app.runs.dispatch.insertion.repository import insert_run_at_once
from app.runs.dispatch.limits import DispatchLimits
from app.runs.records import NewRun, RunFilter, StoredEvents
from app.runs.repository import finish_run, newest_runs
from benchmarks.filled_years import EVENT, EVENTS, MESSAGES, REQUEST, Filled, filled_database, final
from benchmarks.markdown import table
from benchmarks.receipts import facts_of
from benchmarks.usage_queries import GRAPHS, MODELS

SMALL = 200_000
"""Receipts of the database that is compared with."""
BATCH = 500
"""Receipts per statement, as many as the server writes at once."""
DAY = timedelta(days=1)
SHOWN = 25
"""Tables and indexes."""

_SIZES = """
SELECT relname, pg_relation_size(oid) + coalesce(pg_table_size(nullif(reltoastrelid, 0)), 0)
  FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')
"""

Operation = Callable[[Filled], Awaitable[object]]


async def store_receipts(filled: Filled) -> None:
    """A batch of receipts of many runs and accounts, debited and chained."""
    prices, facts = PriceList(), []
    for _ in range(BATCH // MESSAGES):
        key = random.choice(filled.keys[:5])  # noqa: S311 - no secret
        run = RunKey(key.account_id, RunId(f"run-{random.randbytes(16).hex()}"))  # noqa: S311
        facts += [replace(fact, run=run) for fact in facts_of(key, MESSAGES)]
    charged = [(fact, prices.charge(BilledUsage.of(fact), at=fact.at)) for fact in facts]
    receipts = [NewReceipt.of(fact, charge, "final") for fact, charge in charged]
    async with filled.database.transaction() as tx:
        await insert_receipts(tx, receipts)


async def execute_run(filled: Filled) -> None:
    """What the database does for a run: its acceptance, and its end with its events."""
    key, limits = filled.measured, DispatchLimits(queued=256)
    run = RunKey(key.account_id, RunId(f"run-{random.randbytes(16).hex()}"))  # noqa: S311
    text = json.dumps(REQUEST)
    new = NewRun(
        run, key.id, GRAPHS[0], MODELS[0], text, "What?", b"", "req-1", new_uuid(), starts_at_once=True
    )
    async with filled.database.write() as tx:
        await insert_run_at_once(tx, new, AtOnce(len(text), None, 1, filled.until), limits=limits)
    events = [StoredEvents(n, n, EVENT, 1) for n in range(1, EVENTS + 1)]
    async with filled.database.write() as tx:
        ended = await finish_run(tx, run, attempt=0, final=final(run.run_id), report=None, events=events)
    if ended is None:
        raise AssertionError(run)


def usage_of(days: int, of: Callable[[Filled], KeyRecord] = lambda filled: filled.measured) -> Operation:
    """The sums of so many days by day."""

    async def read(filled: Filled) -> None:
        window = UsageFilter(filled.until - days * DAY, filled.until)
        await BillingReports(filled.database).usage(of(filled).account_id, UsageQuery("day", window))

    return read


def usage_of_all(age: timedelta) -> Operation:
    """The sums of all accounts since so long ago, as operators and reconciliation read them."""

    async def read(filled: Filled) -> None:
        # Neither end falls on a quarter of an hour.
        until = filled.until - timedelta(minutes=7)
        await BillingReports(filled.database).usage(
            None, UsageQuery("model", UsageFilter(until - age, until))
        )

    return read


async def newest_receipts(filled: Filled) -> None:
    """The receipts since yesterday, as a correction of prices reads them."""
    async with filled.database.snapshot() as reader:
        await find_used_since(reader, filled.until - DAY, after=None, limit=100)


def page_of_runs(age: timedelta) -> Operation:
    """A page of the list of runs."""

    async def read(filled: Filled) -> None:
        page = PageRequest(50, Cursor(filled.until - age, "run"))
        async with filled.database.snapshot() as reader:
            await newest_runs(reader, filled.measured.account_id, page, RunFilter())

    return read


async def verify_account(filled: Filled) -> None:
    """Every link, receipt and sum of an account; raises `AssertionError` for a finding."""
    account, verifier = filled.measured.account_id, ExportVerifier({})
    verifier.read(header_record([account], complete=True))
    verifier.read(account_record(account))
    total = 0
    async for row in linked_rows(filled.database, account):
        total += 1
        verifier.read(link_record(row.link))
    verifier.findings += map(str, await unchained_records(filled.database, account))
    verifier.findings += await wrong_sums(filled.database, account)
    verifier.read({"type": "end", "links": total})
    verifier.finish()
    if verifier.findings:
        raise AssertionError(verifier.findings[:5])


async def _nothing_unused(_kept: Retention, _until: datetime, _most: int) -> int:
    return 0


def retention(kept: Retention, delete: str) -> Operation:
    """A slice of what is past its time."""

    async def delete_slice(filled: Filled) -> None:
        deletion = RunDeletion(filled.database, StorageQuota(filled.database, None), _nothing_unused, kept)
        if not await getattr(deletion, delete)():
            message = "nothing is left to delete"
            raise AssertionError(message)

    return delete_slice


async def delete_and_vacuum(filled: Filled) -> None:
    """Five slices of events, and what autovacuum does about them."""
    for _ in range(5):
        await DELETE_EVENTS(filled)
    await filled.connection.execute("VACUUM runs, run_events")


DELETE_EVENTS = retention(Retention(events_days=365), "delete_old_events")

OPERATIONS: Mapping[str, tuple[int, Operation]] = {
    f"{BATCH} receipts, debited and chained": (4, store_receipts),
    "acceptance and end of a run": (20, execute_run),
    "usage of a month, by day": (5, usage_of(30)),
    "usage of a year, by day": (3, usage_of(365)),
    "the same of the largest account": (3, usage_of(365, lambda filled: filled.largest)),
    "all accounts: usage of an hour": (3, usage_of_all(timedelta(hours=1))),
    "all accounts: usage of a month": (3, usage_of_all(30 * DAY)),
    "all accounts: receipts since yesterday": (3, newest_receipts),
    "the newest 50 runs": (5, page_of_runs(timedelta())),
    "50 runs of two years ago": (5, page_of_runs(730 * DAY)),
    "verify an account": (1, verify_account),
    "retention: events of 20 runs": (5, DELETE_EVENTS),
    "retention: contents of 20 runs": (5, retention(Retention(contents_days=730), "delete_old")),
    "retention: events of 100 runs, and vacuum": (1, delete_and_vacuum),
}
"""How often each is executed in a round."""


async def compare(small: Filled, big: Filled, rounds: int) -> None:
    """Execute everything in both alternately, and print the medians; the first round does not count."""
    rows = []
    for name, (repeated, operation) in OPERATIONS.items():
        times: dict[int, list[float]] = {id(small): [], id(big): []}
        for number, filled in itertools.product(range((rounds + 1) * repeated), (small, big)):
            began = time.perf_counter()
            await operation(filled)
            if number >= repeated:
                times[id(filled)].append((time.perf_counter() - began) * 1000)
        a, b = (statistics.median(each) for each in times.values())
        rows.append((name, f"{a:.2f}", f"{b:.2f}", f"{b / a:.2f}"))
        print(name, rows[-1][1:], flush=True)
    print(table(("ms, median", f"{small.receipts:,}", f"{big.receipts:,}", "ratio"), rows))


async def print_sizes(small: Filled, big: Filled) -> None:
    """Bytes of each table and index for each receipt."""
    found = [await each.connection.fetch(_SIZES) for each in (small, big)]
    sizes = [{str(row[0]): int(row[1]) for row in each} for each in found]
    rows = []
    for name in sorted(sizes[1], key=sizes[1].__getitem__, reverse=True)[:SHOWN]:
        a, b = (size[name] / filled.receipts for size, filled in zip(sizes, (small, big), strict=True))
        rows.append((name, f"{a:.1f}", f"{b:.1f}", f"{b / a:.2f}"))
    total = sum(sizes[1].values())
    print(table(("bytes for each receipt", f"{small.receipts:,}", f"{big.receipts:,}", "ratio"), rows))
    print(f"{total / 2**30:.1f} GiB, {total / big.receipts:,.0f} bytes for each receipt")


async def main(receipts: int, rounds: int, directory: Path | None) -> None:
    """Fill, measure, print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as temporary:
        base = directory or Path(temporary)
        async with (
            filled_database(base / str(SMALL), SMALL) as small,
            filled_database(base / str(receipts), receipts) as big,
        ):
            await compare(small, big, rounds)
            await print_sizes(small, big)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--receipts", type=int, default=20_000_000, help="of the big one (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of every operation (default: %(default)s)")
    parser.add_argument("--directory", type=Path, help="keeps the databases, and uses those that are there")
    given = parser.parse_args()
    asyncio.run(main(given.receipts, given.rounds, given.directory))
