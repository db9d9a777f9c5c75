"""The billing views, the roles that read them, and every query of docs/FINOPS.md and of the dashboard."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
from anyio import to_thread
from typer.testing import CliRunner

from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.readers.repository import VIEWS
from app.billing.readers.service import SqlReaders
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.cli.main import app as cli
from app.errors import Invalid
from app.platform.audit.records import SERVER
from app.platform.db import Database
from app.usage.records import TokenUsage
from tests.architecture.tree import ROOT
from tests.clients.quick_starts import programs
from tests.factories import a_fact, an_account
from tests.integration.statements import rows

DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "runtally-costs.json").read_text("utf-8"))
MEANT = {"charge_receipts", "credit_ledger", "usage_rollups", "billing_readers", "runs", "api_keys"}


@dataclass(frozen=True, slots=True)
class Bills:
    """Two accounts with receipts and grants; roles exist in the whole server, so each test has its own."""

    url: str
    database: Database
    acme: KeyRecord
    roles: list[str]

    @asynccontextmanager
    async def reader(self, key: KeyRecord | None) -> AsyncIterator[asyncpg.Connection]:
        """A session of a role that reads the account of a key, or all accounts."""
        role, account = f"reader_{uuid4().hex}", None if key is None else key.account_id
        password = await SqlReaders(self.database).set_role(role, account, by=SERVER)
        self.roles.append(role)
        connection = await asyncpg.connect(self.url, user=role, password=password)
        try:
            yield connection
        finally:
            await connection.close()


async def charge(database: Database, key: KeyRecord, messages: int) -> None:
    """Messages of yesterday and before, each with another cost."""
    prices, at = PriceList(), datetime.now(UTC) - timedelta(days=1)
    receipts = []
    for number in range(messages):
        moment = at - timedelta(hours=7 * number)
        usage = TokenUsage(input_tokens=997 + number, output_tokens=101, cache_read_tokens=333)
        fact = a_fact(key, f"msg_{number}", f"run-{number % 3}", usage=usage, at=moment)
        receipts.append(NewReceipt.of(fact, prices.charge(BilledUsage.of(fact), at=moment), "final"))
    async with database.transaction() as tx:
        await insert_receipts(tx, receipts)


@pytest_asyncio.fixture
async def bills(database_url: str, database: Database, admin: asyncpg.Connection) -> AsyncIterator[Bills]:
    acme, other = await an_account(database, "acme"), await an_account(database, "other")
    await charge(database, acme, 7)
    await charge(database, other, 3)
    for key in (acme, other):
        await CreditLedger(database).grant(key.account_id, 70_000_001, note="a gift")
    made = Bills(database_url, database, acme, [])
    yield made
    for role in made.roles:
        await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


SUMS = "sum(cost_usd) AS cost, sum(charged_credits) AS credits, sum(input_tokens) AS tokens"
OF_ACCOUNT = "WHERE $1::uuid IS NULL OR account_id = $1"
KEPT = f"SELECT {SUMS} FROM charge_receipts {OF_ACCOUNT}"  # noqa: S608 - no values in it
LEDGER = f"SELECT sum(credits) FROM credit_ledger {OF_ACCOUNT}"  # noqa: S608 - no values in it
SHOWN = f"SELECT {SUMS}, sum(charged_usd) AS usd FROM "  # noqa: S608 - no values in it


async def test_views_have_what_the_receipts_and_the_ledger_have(
    bills: Bills, admin: asyncpg.Connection
) -> None:
    async with bills.reader(bills.acme) as mine, bills.reader(None) as house:
        for reader, account in ((mine, bills.acme.account_id), (house, None)):
            (kept,) = await admin.fetch(KEPT, account)
            for view in ("billing_receipts", "billing_usage_daily"):
                (shown,) = await reader.fetch(SHOWN + view)
                assert tuple(shown) == (*kept, kept["credits"] / Decimal(10_000_000))
            credits_, dollars = tuple(
                await reader.fetchrow("SELECT sum(credits), sum(usd) FROM billing_ledger") or ()
            )
            assert credits_ == dollars * 10_000_000 == await admin.fetchval(LEDGER, account)
        assert [row["name"] for row in await mine.fetch("SELECT name FROM billing_accounts")] == ["acme"]
        assert await house.fetchval("SELECT count(DISTINCT account) FROM billing_receipts") == 2


async def test_every_column_has_a_comment(bills: Bills) -> None:
    silent = await rows(
        bills.database,
        "SELECT c.relname, a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid "
        "WHERE c.relname = ANY (:views) AND a.attnum > 0 AND (col_description(c.oid, a.attnum) IS NULL "
        "OR obj_description(c.oid) IS NULL OR NOT c.reloptions @> '{security_barrier=true}')",
        views=list(VIEWS),
    )

    assert silent == []


async def test_a_role_reads_nothing_else(bills: Bills, admin: asyncpg.Connection) -> None:
    owner = await admin.fetchval("SELECT current_user")
    tables = [
        row[0] for row in await admin.fetch("SELECT tablename FROM pg_tables WHERE schemaname='public'")
    ]
    functions = [
        row[0]
        for row in await admin.fetch(
            "SELECT format('SELECT %I(%s)', proname, (SELECT string_agg(format('NULL::%s', "
            "format_type(t, NULL)), ', ') FROM unnest(proargtypes) AS t)) FROM pg_proc "
            "WHERE pronamespace = 'public'::regnamespace AND prosecdef"
        )
    ]
    attempts = [
        *(f"TABLE {table}" for table in tables),
        *(f"INSERT INTO {table} DEFAULT VALUES" for table in tables),
        "UPDATE billing_accounts SET name = 'mine'",
        *("UPDATE billing_readers SET account_id = NULL", f"SET ROLE {owner}", "SET ROLE pg_read_all_data"),
        *(f"SET SESSION AUTHORIZATION {owner}", "CREATE TABLE mine (id int)", "CREATE SCHEMA mine"),
        *("SELECT * FROM pg_authid", "SELECT * FROM pg_shadow", "SELECT pg_read_file('PG_VERSION')"),
        *("COPY (SELECT 1) TO PROGRAM 'true'", "COPY accounts TO STDOUT", "SELECT lo_import('PG_VERSION')"),
        *("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "CREATE EXTENSION dblink"),
        *("ALTER VIEW billing_receipts RESET (security_barrier)", "ALTER ROLE CURRENT_USER CREATEROLE"),
        *("CREATE OR REPLACE VIEW billing_receipts AS SELECT 1", "GRANT pg_read_all_data TO CURRENT_USER"),
    ]

    assert functions == []
    assert set(tables) >= MEANT
    async with bills.reader(bills.acme) as reader:
        for attempt in attempts:
            await reader.execute("SET default_transaction_read_only = off")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await reader.execute(attempt)


async def test_conditions_of_a_role_see_no_other_account(bills: Bills) -> None:
    async with bills.reader(bills.acme) as reader:
        await reader.execute("SET default_transaction_read_only = off")
        # A function that says what it was asked about, and pretends to cost nothing.
        await reader.execute(
            "CREATE FUNCTION pg_temp.peek(text) RETURNS bool COST 0.0001 LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
        )
        seen: list[str] = []
        reader.add_log_listener(lambda _, message: seen.append(message.message))
        for view in ("billing_receipts", "billing_usage_daily", "billing_ledger"):
            await reader.fetch(f"SELECT FROM {view} WHERE pg_temp.peek(account_id::text)")
        await reader.fetch("SELECT FROM billing_accounts WHERE pg_temp.peek(id::text)")
        hidden = await reader.fetch(
            "SELECT FROM pg_stats WHERE tablename NOT LIKE 'pg%' AND tablename <> ALL ($1)", list(VIEWS)
        )

    assert set(seen) == {str(bills.acme.account_id)}
    assert [row for row in hidden if row] == []


async def test_one_account_and_a_time_are_found_by_index(bills: Bills) -> None:
    async with bills.reader(bills.acme) as reader:
        await reader.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        plan = await reader.fetch(
            "EXPLAIN SELECT sum(cost_usd) FROM billing_receipts WHERE used_at >= now() - interval '1 day'"
        )
    conditions = [row[0] for row in plan if "Index Cond" in row[0]]

    assert any("account_id = ANY" in each and "used_at >=" in each for each in conditions), plan


async def test_a_role_is_changed_by_the_command_that_made_it(bills: Bills, admin: asyncpg.Connection) -> None:
    readers = SqlReaders(bills.database)
    async with bills.reader(bills.acme) as reader:
        await readers.set_role(bills.roles[0], None, by=SERVER)
        assert await reader.fetchval("SELECT count(*) FROM billing_accounts") == 2
    owner = await admin.fetchval("SELECT current_user")

    for name in (owner, "pg_monitor", "Acme", "1st", "x" * 64, "a; DROP TABLE runs", ""):
        with pytest.raises(Invalid):
            await readers.set_role(name, None, by=SERVER)

    found = await rows(bills.database, "SELECT target FROM audit_entries WHERE action = 'sql_role.set'")
    assert [row.target for row in found] == [bills.roles[0]]


async def test_the_command_prints_the_url_alone(
    bills: Bills, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", bills.url)
    monkeypatch.setenv("RUNTALLY_DATA_DIR", str(tmp_path))
    role = f"reader_{uuid4().hex}"

    def ran(*options: str) -> Any:
        return CliRunner().invoke(cli, ["sql-role", role, *options])

    made = await to_thread.run_sync(ran, "--account", "acme")
    bills.roles.append(role)
    neither = await to_thread.run_sync(ran)
    connection = await asyncpg.connect(made.stdout.strip())
    count = await connection.fetchval("SELECT count(*) FROM billing_receipts")
    await connection.close()

    assert (made.exit_code, count, neither.exit_code) == (0, 7, 2)


def queries() -> Iterator[tuple[str, str]]:
    yield from programs("FINOPS.md", "sql")
    yield from ((panel["title"], panel["targets"][0]["rawSql"]) for panel in DASHBOARD["panels"])
    yield from ((each["name"], each["query"]) for each in DASHBOARD["templating"]["list"][1:])


def filled(query: str, account: str = "acme") -> str:
    """A query as Grafana and Metabase send it, for the last 30 days of an account."""
    query = re.sub(r"\$__timeFilter\((.+?)\)", r"\1 BETWEEN now() - interval '30 days' AND now()", query)
    query = query.replace("${account:sqlstring}", f"'{account}'")
    return query.replace("{{account}}", f"'{account}'").replace("{{from}}", "date '2020-01-01'")


async def test_every_query_of_the_document_and_the_dashboard_finds_something(bills: Bills) -> None:
    dollars: list[Decimal] = []
    async with bills.reader(bills.acme) as reader:
        for title, query in queries():
            found = await reader.fetch(filled(query))
            assert found, title
            if "charged_usd" in found[0]:
                dollars.append(sum(row["charged_usd"] for row in found))
        charged = await reader.fetchval("SELECT sum(charged_usd) FROM billing_receipts")

    assert dollars == [charged] * 5
