"""Books with several accounts, days and servers, which tests falsify."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from app.auth.records import KeyRecord
from app.billing.chain.export import Record, account_records, all_records
from app.billing.chain.head_witness import HeadWitness
from app.billing.chain.sealing import ChainSealer
from app.billing.chain.sealing_key import SealingKey
from app.billing.chain.verification import Verification, verify
from app.billing.chain.verifier import ExportVerifier, link_hash
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.model_price import ModelPrice, OperatorPrice, Rate
from app.billing.prices.price_list import PriceList
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.repricing import reprice
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.usage.records import UsageFact
from tests.factories import a_fact, an_account, an_open_database
from tests.integration.receipt_queues import delivered_queue
from tests.patience import PATIENCE_S

UNPRICED = "claude-unheard-of-9"
DAYS = 3
MESSAGES = 8
"""Of each account and day."""
ENTRIES = MESSAGES + 5
"""The same: debits, one of them repriced, a grant, an adjustment, a reservation and its release."""
SEALED = ENTRIES * (DAYS - 1)

_NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
_USAGE = {"input_tokens": 1000, "output_tokens": 100, "inference_geo": "us"}


def a_sealer(
    database: Database, key: SealingKey | None, directory: Path, *, every: timedelta = timedelta(0)
) -> ChainSealer:
    """A sealer with a witness file in this directory."""
    return ChainSealer(database, key, every=every, witness=HeadWitness(directory / "heads.json"))


@dataclass(frozen=True)
class Books:
    """A database with sealed chains, and entries that are not sealed yet."""

    url: str
    key: SealingKey
    accounts: tuple[UUID, ...]


async def write_books(url: str, directory: Path) -> Books:
    """Charge three accounts on two servers for some days; each day but the last is sealed."""
    key = SealingKey.create(directory / "sealing.pem")
    database = await Database.open(url)
    keys = [await an_account(database, name) for name in ("acme", "globex", "initech")]
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(delivered_queue(database, directory / "journal")) for _ in "12"
        ]
        for day in range(DAYS):
            await _charge(servers, keys, day)
            await _change_credit(database, keys, day)
            rate = Rate(Decimal(1))
            own = OperatorPrice(UNPRICED, _NOON, ModelPrice("file x", rate, rate, rate, rate, rate))
            assert (await reprice(database, PriceList([own]))).adjusted == len(keys)
            if day < DAYS - 1:
                assert await a_sealer(database, key, directory).seal() is not None
    await database.aclose()
    return Books(url, key, tuple(each.account_id for each in keys))


async def _charge(servers: list[ReceiptQueue], keys: list[KeyRecord], day: int) -> None:
    facts = [_fact(key, day, number) for number in range(MESSAGES) for key in keys]
    for number, fact in enumerate(facts):
        servers[number % len(servers)].record(fact)
        if number % 5 == 0:
            await asyncio.sleep(0)
    for fact in facts:
        for server in servers:
            await server.flush(fact.run, within_s=PATIENCE_S)


def _fact(key: KeyRecord, day: int, number: int) -> UsageFact:
    model = UNPRICED if number == 0 else "claude-sonnet-4-6"
    at = _NOON + timedelta(days=day, seconds=number)
    reported = {} if number == 0 else _USAGE
    return a_fact(
        key, f"msg_{number} “é\n", f"run-{day}", model=model, at=at, reported=reported, note="ß\\\"'"
    )


async def _change_credit(database: Database, keys: list[KeyRecord], day: int) -> None:
    ledger = CreditLedger(database)
    for key in keys:
        await ledger.change_mode(key.account_id, "prepaid")
        await ledger.grant(key.account_id, 10_000_000, reference=f"order-{day}", note="paid")
        await ledger.adjust(key.account_id, -5, note="goodwill")
        run = RunKey(key.account_id, RunId(f"reserved-{day}"))
        async with database.transaction() as tx:
            await ledger.reserve(tx, run, 100)
        async with database.transaction() as tx:
            await ledger.release(tx, run)


async def grant(database: Database, owner: KeyRecord, times: int = 1) -> None:
    """Add an entry to an account's ledger."""
    for _ in range(times):
        await CreditLedger(database).grant(owner.account_id, 10)


async def verified(url: str, key: SealingKey, **known: Any) -> Verification:
    """What `runtally verify` finds."""
    async with an_open_database(url) as database:
        return await verify(database, key.public_keys, **known)


async def exported(url: str, account_id: UUID | None = None) -> list[Record]:
    """An export of one account, or of all, as it is after a way through a file."""
    async with an_open_database(url) as database:
        records = all_records(database) if account_id is None else account_records(database, account_id)
        return [json.loads(json.dumps(record)) async for record in records]


def checked(records: list[Any], key: SealingKey, *earlier: list[Any]) -> list[str]:
    """What the stand-alone verifier finds in an export."""
    verifier = ExportVerifier(key.public_keys)
    for export in earlier:
        verifier.note(export)
    for record in records:
        verifier.read(record)
    verifier.finish()
    return verifier.findings


@asynccontextmanager
async def attacker(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody with every right in the database: no trigger fires, no constraint holds."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET session_replication_role = replica")
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def a_copy(postgres: str, template: str) -> AsyncIterator[str]:
    """A copy of a database on this server."""
    name, server = f"test_{uuid4().hex}", postgres.rpartition("/")[0]
    admin = await asyncpg.connect(postgres)
    try:
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        yield f"{server}/{name}"
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


async def rechain(connection: asyncpg.Connection, account: UUID) -> None:
    """Recompute the hashes of a chain, as somebody can who knows the format."""
    rows = await connection.fetch(
        "SELECT position, content FROM chain_links WHERE account_id = $1 ORDER BY position", account
    )
    previous = link_hash(b"", str(account))
    for position, row in enumerate(rows, start=1):
        previous = link_hash(previous, row["content"])
        await connection.execute(
            "UPDATE chain_links SET position = $3, hash = $4 WHERE account_id = $1 AND position = $2",
            *(account, row["position"], position, previous),
        )
