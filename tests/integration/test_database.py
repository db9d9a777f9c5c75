import asyncio
import json
import time
import traceback
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import asyncpg
import psutil
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.engine import Connection

import app.auth.tables
import app.billing.credit.tables
import app.billing.readers.tables
import app.billing.receipts.open_messages.tables
import app.billing.receipts.tables
import app.billing.reports.tables
import app.platform.audit.tables
import app.runs.tables
import app.schedules.tables
import app.webhooks.tables  # noqa: F401 - each adds its tables to the metadata
from app.billing.chain.verification import verify
from app.platform import db
from app.platform.embedded.postgres import EmbeddedPostgres
from app.platform.postgres.connecting import IDLE_S
from app.platform.postgres.usability import DatabaseNotUsable
from app.platform.schema.compatibility import SchemaOutdated
from app.platform.serialization.stored_json import dump_json
from app.storable import storable
from tests.integration.statements import execute, rows, scalar

ROOT = Path(__file__).parents[2]
ACCOUNT_AND_KEY = """
    WITH account AS (
        INSERT INTO accounts (id, name, created_at) VALUES (gen_random_uuid(), 'old', now()) RETURNING id
    )
    INSERT INTO api_keys (id, account_id, prefix, hash, scopes, created_at)
    SELECT gen_random_uuid(), id, 'rt_', 'x', '{}', now() FROM account
"""
OLD_RECEIPTS = """
    INSERT INTO charge_receipts (
        id, source_system, source_reference, run_id, attempt, usage_unit_id, account_id, api_key_id,
        graph_id, executor_type, model, input_tokens, output_tokens, cache_read_tokens,
        cache_write_5m_tokens, cache_write_1h_tokens, cost_usd, charged_credits, basis,
        output_estimated, origin, created_at)
    SELECT gen_random_uuid(), 'anthropic_sdk', n::text, 'r', 0, 'm', account_id, id, 'g', 'claude_sdk', 'm',
           n * 10, 0, 0, 0, 0, n * 0.000001, n, 'final', false, 'assistant',
           CASE WHEN n = 1 THEN timestamptz '2026-10-31T23:59:00Z' ELSE '2026-11-01T00:03:00Z' END
      FROM api_keys, generate_series(1, 3) AS n
"""

LATE_DEBIT = """
    WITH receipt AS (
        INSERT INTO charge_receipts
        SELECT (jsonb_populate_record(
            r, jsonb_build_object('id', gen_random_uuid(), 'source_reference', gen_random_uuid()))).*
          FROM charge_receipts AS r LIMIT 1 RETURNING id, account_id
    )
    INSERT INTO credit_ledger (account_id, kind, credits, receipt_id, created_at)
    SELECT account_id, 'debit', -100, id, CAST(:late AS timestamptz) FROM receipt
"""


def upgrade_to(connection: Connection, revision: str) -> None:
    config = Config(ROOT / "alembic.ini")
    config.set_main_option("script_location", str(ROOT / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


async def test_the_migrations_create_the_declared_tables(database: db.Database) -> None:
    def difference(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return list(compare_metadata(context, db.metadata))

    async with database.transaction() as tx:
        assert await tx.run_sync(difference) == []


async def test_migrating_twice_changes_nothing(database: db.Database) -> None:
    await database.migrate()

    await database.require_usable_schema()


async def test_an_empty_database_is_refused(postgres: str) -> None:
    admin = await asyncpg.connect(postgres)
    await admin.execute("CREATE DATABASE empty")
    database = await db.Database.open(postgres.rpartition("/")[0] + "/empty")

    with pytest.raises(SchemaOutdated):
        await database.require_usable_schema()

    await database.aclose()
    await admin.execute("DROP DATABASE empty")
    await admin.close()


async def test_receipts_from_before_the_ledger_are_debited_and_summed(postgres: str) -> None:
    admin = await asyncpg.connect(postgres)
    await admin.execute("CREATE DATABASE before_the_ledger")
    database = await db.Database.open(postgres.rpartition("/")[0] + "/before_the_ledger")
    async with database.transaction() as tx:
        await tx.run_sync(upgrade_to, "c40e7d8a19f3")
        await tx.execute(text(ACCOUNT_AND_KEY))
        await tx.execute(text(OLD_RECEIPTS))

    await database.migrate()

    assert (await verify(database, {})).findings == ()
    async with database.snapshot() as reader:
        links = await reader.execute(text("SELECT count(*) FROM chain_links"))
        assert links.scalar_one() == 3
        account = await reader.execute(text("SELECT spent, spent_by_month, balance FROM credit_accounts"))
        assert account.one() == (6, {"2026-10": 1, "2026-11": 5}, -6)
        rollups = await reader.execute(
            text("SELECT receipts, input_tokens, cost_usd FROM usage_rollups ORDER BY bucket")
        )
        assert rollups.all() == [(1, 10, Decimal("0.0000010000")), (2, 50, Decimal("0.0000050000"))]
    for late in ("2026-10-15", "2026-11-15", "2026-12-01"):
        await execute(database, LATE_DEBIT, late=datetime.fromisoformat(late).replace(tzinfo=UTC))
    (account,) = await rows(database, "SELECT spent, spent_by_month FROM credit_accounts")
    assert account == (306, {"2026-10": 101, "2026-11": 105, "2026-12": 100})
    await database.aclose()
    await admin.execute("DROP DATABASE before_the_ledger")
    await admin.close()


async def test_leaving_commits_and_an_error_rolls_back(database: db.Database) -> None:
    await execute(database, "CREATE TABLE kept (n int)")

    async def fail() -> None:
        async with database.transaction() as tx:
            await tx.execute(text("INSERT INTO kept VALUES (1)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert await scalar(database, "SELECT count(*) FROM kept") == 0


async def test_a_snapshot_cannot_write(database: db.Database) -> None:
    with pytest.raises(db.StatementFailed, match="read-only"):
        async with database.snapshot() as reader:
            await reader.execute(text("CREATE TABLE sneaky (n int)"))


async def test_a_database_that_became_read_only_is_unavailable(database: db.Database) -> None:
    async def write() -> None:
        async with database.transaction() as tx:
            await tx.execute(text("SET TRANSACTION READ ONLY"))
            await tx.execute(text("CREATE TABLE later (n int)"))

    with pytest.raises(db.DatabaseUnavailable) as raised:
        await write()

    assert "25006" in raised.value.reason


async def test_a_wrong_statement_does_not_count_as_unavailable(database: db.Database) -> None:
    with pytest.raises(db.StatementFailed):
        async with database.snapshot() as reader:
            await reader.execute(text("SELECT nonsense"))


async def test_a_view_of_one_statement_begins_no_transaction(database: db.Database) -> None:
    start_of_transaction = text("SELECT now()")
    async with database.read() as reader:
        apart = {(await reader.execute(start_of_transaction)).scalar_one() for _ in range(2)}
    async with database.snapshot() as reader:
        together = {(await reader.execute(start_of_transaction)).scalar_one() for _ in range(2)}

    assert (len(apart), len(together)) == (2, 1)


async def test_an_idle_connection_is_used_again_unless_it_is_lost(database: db.Database) -> None:
    async def backend() -> int:
        async with database.read() as reader:
            pid: int = (await reader.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        return pid

    first = await backend()
    await asyncio.sleep(IDLE_S)
    assert await backend() == first
    await asyncio.sleep(IDLE_S)
    psutil.Process(first).terminate()
    while psutil.pid_exists(first):
        # Without an await: the event loop does not notice that the connection is closed.
        time.sleep(0.01)  # noqa: ASYNC251
    assert await backend() != first


async def test_an_unavailable_database_is_reported_until_it_is_back(migrated_path: Path) -> None:
    async with EmbeddedPostgres.start(migrated_path) as server:
        database = await db.Database.open(server.url)
        admin = await asyncpg.connect(server.url)
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while await admin.fetchval(f"SELECT count(pg_terminate_backend(pid)) {others}"):
            await asyncio.sleep(0.01)
        await admin.close()
        await database.time()
    with pytest.raises(db.DatabaseUnavailable) as raised:
        await database.time()
    await database.aclose()

    assert "127.0.0.1" not in raised.value.detail


@pytest.mark.parametrize("url", ["postgresql://u:secret@127.0.0.1:9/x", "postgres://u:secret@127.0.0.1:9/x"])
async def test_an_unreachable_database_is_reported_without_its_password(url: str) -> None:
    with pytest.raises(DatabaseNotUsable, match=r"127\.0\.0\.1:9/x\): nothing listens") as raised:
        await db.Database.open(url)

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("SELECT CAST(:value AS text)", "a secret \ud800"),
        ("SELECT CAST(:value AS bigint)", 10**30),
        ("SELECT CAST(CAST(:value AS text) AS int)", "a secret"),
        ("SELECT CAST(CAST(:value AS text) AS json)", "{a secret"),
        ("INSERT INTO accounts (id, name, created_at) VALUES (NULL, :value, now())", "a secret"),
    ],
)
async def test_a_failed_statement_raises_without_values(
    database: db.Database, statement: str, value: object
) -> None:
    with pytest.raises(db.StatementFailed) as raised:
        await execute(database, statement, value=value)

    shown = "".join(traceback.format_exception(raised.value))
    assert "StatementFailed: " in shown
    assert "secret" not in shown
    assert str(value) not in shown


DEEP = "[" * 150 + "]" * 150


@pytest.mark.parametrize(
    ("planted", "loaded"),
    [
        (r'{"a": ["b", 1, 1.5, true, null]}', {"a": ["b", 1, 1.5, True, None]}),
        (r'"\ud83d\ude00 and \\u0000"', "\U0001f600 and \\u0000"),
        (r'["\ud800", "\uDFFF"]', ["\ufffd", "\ufffd"]),
        (r'"\u0000"', "\ufffd"),
        ("[1e999, -1e999, 1e-999]", [None, None, 0.0]),
        (DEEP, storable(json.loads(DEEP))),
    ],
    ids=["usual", "pair", "surrogates", "null", "infinity", "deep"],
)
async def test_json_of_other_programs_is_read_as_if_it_had_been_stored_here(
    database: db.Database, planted: str, loaded: object
) -> None:
    statement = text("SELECT CAST(CAST(:value AS text) AS json) AS value").columns(value=JSON())
    async with database.read() as reader:
        read = (await reader.execute(statement, {"value": planted})).scalar_one()

    assert read == loaded
    assert dump_json(read) == dump_json(loaded)
