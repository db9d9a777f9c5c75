"""A temporary database with the runs and receipts of three years, for `benchmarks.years`.

Runs, their events, receipts and debits are inserted by statements like those of the server, so that the same
triggers keep rollups, balances and hash chains; at the end these are compared with the receipts. Half of it
belongs to one account, the other half to accounts of about the same size. Transcripts are left out: like
events, they are found by their owner and deleted with it.
"""

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.ids import RunId
from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.requests.outcome import FinalUsage, GraphFinal
from benchmarks.usage_queries import FILL, GRAPHS, MODELS

OF_ONE_ACCOUNT = 20_000
"""Receipts of each account but the largest."""
YEARS = timedelta(days=3 * 365)
MESSAGES = 4
"""Receipts of a run."""
EVENTS = 6
"""Rows of events of a run: its texts are one row each."""
CHUNK = 2_000
"""Receipts per statement of the fill."""

# As the server does: the receipts, their debits, and here also the runs with what is kept of them. $11 is the
# request, $12 the result, $13 an event.
_FILL_ALL = f"""
WITH inserted AS (
    {FILL} RETURNING id, account_id, api_key_id, run_id, graph_id, model, charged_credits, used_at
), accepted AS (
    INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request, request_hash, final,
                      meters, process_id, created_at, started_at, ended_at)
    SELECT account_id, run_id, min(api_key_id::text)::uuid, min(graph_id), min(model), 'succeeded', $11::json,
           sha256(run_id::bytea), $12::json, '{{"sdk": 4, "gateway": 4, "drift": 0}}',
           uuidv7(), min(used_at), min(used_at), max(used_at)
      FROM inserted GROUP BY account_id, run_id
    RETURNING account_id, run_id, ended_at
), stored AS (
    INSERT INTO run_events (account_id, run_id, position, last_position, data, at)
    SELECT account_id, run_id, position, position, $13::json, ended_at
      FROM accepted, generate_series(1, {EVENTS}) AS position
)
INSERT INTO credit_ledger (account_id, kind, credits, receipt_id, run_id, created_at, used_at)
SELECT account_id, 'debit', -charged_credits, id, run_id, clock_timestamp(), used_at FROM inserted
"""  # noqa: S608 - constants

_SUMS = """
SELECT (SELECT count(*) FROM charge_receipts) = (SELECT sum(receipts) FROM usage_rollups)
   AND (SELECT count(*) FROM charge_receipts) = (SELECT count(*) FROM chain_links)
   AND (SELECT sum(charged_credits) FROM charge_receipts) = (SELECT sum(spent) FROM credit_accounts)
"""

REQUEST = {
    "graphId": GRAPHS[0],
    "messages": [{"role": "user", "content": "What does the contract say? " * 20}],
}
EVENT = {"type": "text_delta", "messageId": "msg_1", "delta": "The contract says this. " * 10}


def final(run_id: RunId) -> GraphFinal:
    """The result of a run."""
    return GraphFinal(
        ok=True,
        run_id=run_id,
        request_id="req-1",
        content="The contract says this. " * 30,
        finish_reason="stop",
        usage=FinalUsage(),
    )


@dataclass(slots=True)
class Filled:
    """A database with so many receipts until now."""

    database: Database
    connection: asyncpg.Connection
    largest: KeyRecord
    keys: list[KeyRecord]
    """Those of the other accounts."""
    receipts: int
    until: datetime

    @property
    def measured(self) -> KeyRecord:
        """The account whose operations are measured."""
        return self.keys[0]

    async def fill(self) -> float:
        """Insert everything; returns receipts per second."""
        keys = [self.largest] * len(self.keys) + self.keys
        contents = map(
            json.dumps, (REQUEST, final(RunId("run")).model_dump(mode="json", by_alias=True), EVENT)
        )
        fixed = (self.receipts, self.until - YEARS, YEARS, MESSAGES)
        chosen = ([key.account_id for key in keys], [key.id for key in keys], GRAPHS, MODELS, *contents)
        began = time.perf_counter()
        for first in range(0, self.receipts, CHUNK):
            if first == self.receipts * 9 // 10 // CHUNK * CHUNK:
                # Like the last run of autovacuum: what came since is not in the statistics.
                await self.connection.execute("VACUUM (ANALYZE)")
            await self.connection.execute(_FILL_ALL, first, first + CHUNK - 1, *fixed, *chosen)
            rate = (first + CHUNK) / (time.perf_counter() - began)
            print(f"\r{first + CHUNK:,} of {self.receipts:,} receipts, {rate:,.0f}/s", end="", flush=True)
        print()
        if not await self.connection.fetchval(_SUMS):
            message = "rollups, chains or balances are not the sums of the receipts"
            raise AssertionError(message)
        return rate


@asynccontextmanager
async def filled_database(
    directory: Path, receipts: int, of_one: int = OF_ONE_ACCOUNT
) -> AsyncIterator[Filled]:
    """A database with so many receipts, `of_one` of each small account; that of before, if there is one."""
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(EmbeddedPostgres.start(directory))
        database = await Database.open(postgres.url)
        stack.push_async_callback(database.aclose)
        await database.migrate()
        connection = await asyncpg.connect(postgres.url)
        stack.push_async_callback(connection.close)
        names = ["largest", *(f"account-{n}" for n in range(receipts // 2 // of_one))]
        keys = [(await Accounts(database).create_key(name, ["receipts:read"]))[0] for name in names]
        until = await connection.fetchval("SELECT max(used_at) FROM charge_receipts")
        filled = Filled(database, connection, keys[0], keys[1:], receipts, until or datetime.now(UTC))
        if until is None:
            print(f"filled with {await filled.fill():,.0f} receipts/s")
        yield filled
