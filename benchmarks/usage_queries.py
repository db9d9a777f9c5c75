"""Usage reports over a year of receipts, compared with the same sums computed from the receipts.

Fills `charge_receipts` of a temporary PostgreSQL with generated runs, spread evenly over a year and three
accounts; the trigger maintains the rollups, as in production. Then it executes both queries alternately
and checks that the results are equal. How much a rollup saves depends on how many receipts share a
quarter of an hour, a model, a graph and a key. The messages of one run usually do, so vary `--messages`;
`--messages 1` is the worst case.

    .venv/bin/python -m benchmarks.usage_queries --rows 5000000
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar
from uuid import UUID

import asyncpg

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.receipts.records import ReceiptFilter
from app.billing.reports.records import GroupBy, UsageBreakdown, UsageFilter, UsageSums
from app.billing.reports.service import BillingReports, UsageQuery
from app.ids import AccountId
from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.platform.pagination import Cursor, PageRequest
from app.runs.drift.repository import drifted_runs
from app.runs.records import DriftedRuns

Sums: TypeAlias = list[UsageBreakdown]
Result = TypeVar("Result")

END = datetime(2026, 7, 1, tzinfo=UTC)
DAYS = 365
MODELS = [f"claude-model-{number}" for number in range(1, 6)]
GRAPHS = [f"claude_agents:graph-{number}" for number in range(1, 5)]
KEYS_PER_ACCOUNT = 2
SHOWN = 20
"""How many alarms are listed; all are counted."""
CHUNK = 100_000
"""Receipts per statement."""

GROUPS: tuple[GroupBy | None, ...] = (None, "day", "model", "graph", "key")
WINDOWS = (
    ("year", END - timedelta(days=DAYS), END),
    ("month", END - timedelta(days=30), END),
    # Neither end falls on a quarter of an hour.
    ("unaligned", END - timedelta(days=100, minutes=7), END - timedelta(days=3, seconds=401)),
)

# Receipts $1 to $2 of $3; the messages of a run are five seconds apart. The ids of runs are in no order, as
# those that clients choose.
FILL = """
INSERT INTO charge_receipts (
    id, source_system, source_reference, run_id, attempt, usage_unit_id,
    account_id, api_key_id, graph_id, executor_type, model,
    input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
    web_search_requests, cost_usd, charged_credits,
    price_version, basis, output_estimated, origin, parent_tool_call_id, ingress_request_id,
    used_at, created_at, cache_savings_usd, provider_usage, lines)
SELECT uuidv7(), 'benchmark', run_id || '/0/msg_' || n, run_id, 0, 'msg_' || n,
       account, key, graph, 'claude_sdk', model,
       input, output, input * 3, input / 2, 0,
       0, (input * 3 + output * 15)::numeric / 1000000, (input * 3 + output * 15) * 10,
       'benchmark',
       CASE WHEN n % 100003 = 7 THEN 'unpriced' WHEN n % 1009 = 7 THEN 'partial' ELSE 'final' END,
       false, CASE WHEN n % 4999 = 7 THEN 'hidden' ELSE 'assistant' END, NULL, 'req-' || run,
       $4::timestamptz + $5::interval * ((run * $6)::float8 / $3) + interval '5 s' * (n % $6),
       clock_timestamp(),
       (input * 3)::numeric * 0.0000027,
       jsonb_build_object('input_tokens', input, 'output_tokens', output,
                          'cache_read_input_tokens', input * 3,
                          'cache_creation_input_tokens', input / 2, 'service_tier', 'standard',
                          'server_tool_use', jsonb_build_object('web_search_requests', 0)),
       jsonb_build_array(jsonb_build_object('type', 'input_tokens', 'tokens', input, 'usd', '0.000003'),
                         jsonb_build_object('type', 'output_tokens', 'tokens', output, 'usd', '0.000015'))
  FROM (SELECT n, n / $6 AS run, 'run-' || md5((n / $6)::text) AS run_id,
               200 + n % 1801 AS input, 20 + n % 499 AS output
          FROM generate_series($1::bigint, $2::bigint) AS n) AS messages,
       LATERAL (SELECT abs(hashint8(run)::bigint) AS dice) AS thrown,
       LATERAL (SELECT ($7::uuid[])[1 + dice % cardinality($7::uuid[])] AS account,
                       ($8::uuid[])[1 + dice % cardinality($8::uuid[])] AS key,
                       ($9::text[])[1 + dice / 11 % cardinality($9::text[])] AS graph,
                       ($10::text[])[1 + dice / 101 % cardinality($10::text[])] AS model) AS chosen
"""

# One run in a thousand whose meters disagreed.
_FILL_RUNS = """
INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request, request_hash, meters,
                  process_id, created_at, started_at, ended_at)
SELECT account_id, run_id, min(api_key_id::text)::uuid, min(graph_id), min(model), 'succeeded', '{}', '',
       json_build_object('sdk', count(*), 'gateway', count(*),
                         'drift', CASE WHEN hashtext(run_id) % 1000 = 0 THEN 1 ELSE 0 END),
       uuidv7(), min(used_at), min(used_at), max(used_at)
  FROM charge_receipts GROUP BY account_id, run_id
"""

_RAW = """
SELECT {group}, count(*) FILTER (WHERE basis <> 'adjustment'),
       sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_5m_tokens),
       sum(cache_write_1h_tokens), sum(cost_usd), sum(charged_credits), sum(cache_savings_usd)
  FROM charge_receipts
 WHERE account_id = $1 AND used_at >= $2 AND used_at < $3
 GROUP BY 1 ORDER BY 1
"""
_RAW_GROUP = {
    None: "''",
    "day": "(used_at AT TIME ZONE 'UTC')::date::text",
    "model": "model",
    "graph": "graph_id",
    "key": "api_key_id::text",
}


@dataclass(frozen=True, slots=True)
class Size:
    """Repetitions and amount of data."""

    rows: int
    messages: int
    rounds: int


async def fill(connection: asyncpg.Connection, keys: list[KeyRecord], scale: Size) -> float:
    """Insert the receipts; returns how many seconds that took."""
    accounts = [key.account_id for key in keys]
    began = time.perf_counter()
    for first in range(0, scale.rows, CHUNK):
        last = min(first + CHUNK, scale.rows) - 1
        await connection.execute(
            FILL,
            *(first, last, scale.rows, END - timedelta(days=DAYS), timedelta(days=DAYS)),
            *(scale.messages, accounts, [key.id for key in keys], GRAPHS, MODELS),
        )
        rate = (last + 1) / (time.perf_counter() - began)
        print(f"\rfilling: {last + 1:,} of {scale.rows:,} receipts, {rate:,.0f} a second", end="", flush=True)
    took = time.perf_counter() - began
    print()
    await connection.execute(_FILL_RUNS)
    # As autovacuum would have done in a year.
    await connection.execute("VACUUM ANALYZE runs")
    await connection.execute("VACUUM ANALYZE charge_receipts")
    await connection.execute("VACUUM ANALYZE usage_rollups")
    return took


async def raw_usage(connection: asyncpg.Connection, key: KeyRecord, query: UsageQuery) -> Sums:
    """The same report, computed from the receipts alone."""
    statement = _RAW.format(group=_RAW_GROUP[query.group_by])
    rows = await connection.fetch(statement, key.account_id, query.filters.since, query.filters.until)
    return [UsageBreakdown(name, UsageSums(*sums)) for name, *sums in rows]


async def timed(work: Awaitable[Result]) -> tuple[float, Result]:
    """Milliseconds and the result."""
    began = time.perf_counter()
    result = await work
    return (time.perf_counter() - began) * 1000, result


async def compare_usage(
    reports: BillingReports, connection: asyncpg.Connection, key: KeyRecord, rounds: int
) -> None:
    """Every group and window in both ways; raises `AssertionError` if they differ."""
    print(f"\nusage of one account, {rounds} interleaved rounds; medians in ms")
    print(f"{'window':<12}{'groupBy':<10}{'receipts':>12}{'GROUP BY':>12}{'Runtally':>12}{'ratio':>8}")
    for window, since, until in WINDOWS:
        for group_by in GROUPS:
            query = UsageQuery(group_by, UsageFilter(since, until))
            raw, ours = [], []
            for _ in range(rounds):
                took, expected = await timed(raw_usage(connection, key, query))
                raw.append(took)
                took, found = await timed(reports.usage(key.account_id, query))
                ours.append(took)
                if found != expected:
                    message = f"{window} by {group_by}: {found} instead of {expected}"
                    raise AssertionError(message)
            receipts = sum(each.sums.receipts for each in found)
            a, b = statistics.median(raw), statistics.median(ours)
            print(f"{window:<12}{group_by or '-':<10}{receipts:12,}{a:12.1f}{b:12.1f}{b / a:8.2f}")


async def time_pages(reports: BillingReports, key: KeyRecord, rounds: int) -> None:
    """A page of a search with various filters; raises `AssertionError` if a receipt does not match."""
    (newest,), _ = await reports.search(key.account_id, ReceiptFilter(), PageRequest(1))
    month = (END - timedelta(days=60), END - timedelta(days=30))
    searches = {
        "everything": ReceiptFilter(),
        "one model": ReceiptFilter(model=MODELS[0]),
        "one key": ReceiptFilter(api_key_id=key.id),
        "model and graph": ReceiptFilter(model=MODELS[0], graph_id=GRAPHS[0]),
        "model, a past month": ReceiptFilter(model=MODELS[0], used_from=month[0], used_to=month[1]),
        "basis final": ReceiptFilter(basis="final"),
        "basis partial": ReceiptFilter(basis="partial"),
        "basis unpriced": ReceiptFilter(basis="unpriced"),
        "hidden, one model": ReceiptFilter(origin="hidden", model=MODELS[0]),
        "one run": ReceiptFilter(run_id=newest.run_id),
        "a model never used": ReceiptFilter(model="claude-never"),
        "a key never used": ReceiptFilter(api_key_id=UUID(int=0)),
    }
    deep = Cursor(END - timedelta(days=300), str(newest.id)).encode()
    print(f"\na page of 50 receipts, {rounds * 3} rounds, in ms")
    print(f"{'filter':<22}{'found':>8}{'median':>10}{'longest':>10}{'300 days on':>14}")
    for name, wanted in searches.items():
        times, later = [], []
        for _ in range(rounds * 3):
            took, (page, _) = await timed(reports.search(key.account_id, wanted, PageRequest(50)))
            times.append(took)
            took, _ = await timed(reports.search(key.account_id, wanted, PageRequest.of_uuids(50, deep)))
            later.append(took)
        median, further = statistics.median(times), statistics.median(later)
        print(f"{name:<22}{len(page):8}{median:10.1f}{max(times):10.1f}{further:14.1f}")


@dataclass(frozen=True, slots=True)
class BillingPage:
    """The services that the page uses."""

    reports: BillingReports
    database: Database

    def questions(self, key: KeyRecord) -> dict[str, Callable[[UsageFilter], Awaitable[object]]]:
        """The queries of one load of the page."""
        account = key.account_id
        splits: tuple[GroupBy, ...] = ("model", "graph", "key")
        questions: dict[str, Callable[[UsageFilter], Awaitable[object]]] = {
            f"usage by day, split by {split}": partial(self._usage, account, "day", split) for split in splits
        }
        questions |= {f"usage by {group}": partial(self._usage, account, group, None) for group in splits}
        questions["usage by day, of one model"] = lambda window: self._usage(
            account, "day", "graph", replace(window, model=MODELS[0])
        )
        questions["receipts without a price"] = lambda window: self.reports.unpriced(
            account, since=window.since, until=window.until, limit=SHOWN
        )
        questions["runs with drift"] = partial(self._drifted, account)
        questions["the balance"] = lambda _: CreditLedger(self.database).balance(account)
        return questions

    async def _drifted(self, account: AccountId, window: UsageFilter) -> DriftedRuns:
        async with self.database.snapshot() as reader:
            return await drifted_runs(reader, account, since=window.since, until=window.until, limit=SHOWN)

    async def _usage(
        self, account: AccountId, group: GroupBy, split: GroupBy | None, window: UsageFilter
    ) -> list[UsageBreakdown]:
        return await self.reports.usage(account, UsageQuery(group, window, split_by=split))


async def time_the_billing_page(billing_page: BillingPage, key: KeyRecord, rounds: int) -> None:
    """The queries of the billing page besides receipts, for each of its ranges."""
    print(f"\nwhat the billing page asks, {rounds * 3} rounds; medians in ms")
    print(f"{'question':<34}{'30 days':>10}{'90 days':>10}{'a year':>10}")
    for name, run_query in billing_page.questions(key).items():
        print(f"{name:<34}", end="")
        for days in (30, 90, DAYS):
            window = UsageFilter(END - timedelta(days=days), END)
            took = [(await timed(run_query(window)))[0] for _ in range(rounds * 3)]
            print(f"{statistics.median(took):10.1f}", end="", flush=True)
        print()


async def main(scale: Size) -> None:
    """Fill, measure, print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as directory:
        async with EmbeddedPostgres.start(Path(directory)) as postgres:
            database = await Database.open(postgres.url)
            connection = await asyncpg.connect(postgres.url)
            try:
                await database.migrate()
                accounts = Accounts(database)
                names = [f"account-{n}" for n in range(3)] * KEYS_PER_ACCOUNT
                keys = [(await accounts.create_key(name, ["receipts:read"]))[0] for name in names]
                took = await fill(connection, keys, scale)
                rollups = await connection.fetchval("SELECT count(*) FROM usage_rollups")
                size = await connection.fetchval(
                    "SELECT pg_size_pretty(pg_database_size(current_database()))"
                )
                print(f"filled in {took:.0f} s, {scale.rows / took:,.0f} receipts a second; {size} on disk")
                print(f"{rollups:,} rollups, {scale.rows / rollups:.1f} receipts each")
                reports = BillingReports(database)
                await compare_usage(reports, connection, keys[0], scale.rounds)
                await time_pages(reports, keys[0], scale.rounds)
                await time_the_billing_page(BillingPage(reports, database), keys[0], scale.rounds)
            finally:
                await connection.close()
                await database.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="receipts to make (default: %(default)s)")
    parser.add_argument(
        "--messages",
        type=int,
        default=10,
        help="receipts of one run, made within minutes (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="of every query (default: %(default)s)")
    given = parser.parse_args()
    asyncio.run(main(Size(given.rows, given.messages, given.rounds)))
