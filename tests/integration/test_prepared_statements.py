"""Statements that the driver executes: errors, transactions and cancellations are those of all others."""

import asyncio
from typing import Any

import asyncpg
import pytest
from sqlalchemy import bindparam, column, select, table, text

from app.errors import AppError
from app.platform.db import Database, DatabaseUnavailable, Transaction
from app.platform.postgres.prepared import Prepared
from tests.integration.statements import execute, noted, rows, scalar, until

_KINDS = table("kinds", column("name"), column("rank"))
_RANKED = Prepared(
    select(_KINDS.c.name)
    .where(_KINDS.c.rank > bindparam("least"), _KINDS.c.name != "hidden")
    .order_by(_KINDS.c.name)
)
_INSERT = "INSERT INTO kinds (name, rank) VALUES (:name, :rank) RETURNING name"

FAILING: dict[str, tuple[str, dict[str, Any]]] = {
    "a constraint": (_INSERT, {"name": "known", "rank": 1}),
    "a value of another type": (_INSERT, {"name": "new", "rank": "one"}),
    "a value that is too large": (_INSERT, {"name": "new", "rank": 2**40}),
    "a value that cannot be read": ("SELECT CAST(:number AS int)", {"number": "one"}),
    "no such table": ("SELECT :number FROM missing", {"number": "one"}),
    "a transaction to repeat": ("SELECT raised(:state)", {"state": "40001"}),
    "an attempt that is over": ("SELECT raised(:state)", {"state": "RT001"}),
    "nothing stored": ("SELECT raised(:state)", {"state": "RT002"}),
    "a server that stops": ("SELECT raised(:state)", {"state": "57P01"}),
    "a lost connection": ("SELECT pg_terminate_backend(pg_backend_pid(), :wait)", {"wait": 0}),
}


@pytest.fixture
async def kinds(database: Database) -> Database:
    """A database with a table of kinds."""
    await execute(
        database,
        "CREATE TABLE kinds (name text PRIMARY KEY, rank int NOT NULL)",
        "INSERT INTO kinds VALUES ('known', 1), ('hidden', 9), ('other', 2)",
        """CREATE FUNCTION raised(state text) RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = state; END $$""",
    )
    return database


async def failure(
    database: Database, statement: Prepared | str, values: dict[str, Any]
) -> tuple[object, ...]:
    """What a statement raises, by the driver or by SQLAlchemy."""
    try:
        async with database.write() as tx:
            if isinstance(statement, str):
                await tx.execute(text(statement), values)
            else:
                await statement.fetch(tx, values)
    except Exception as error:  # noqa: BLE001 - each is compared
        known = (getattr(error, name, None) for name in ("by_values", "reason", "is_logged"))
        return (type(error), isinstance(error, AppError), str(error), *known)
    return ()


@pytest.mark.parametrize("kind", FAILING)
async def test_an_error_is_what_it_is_for_all_statements(kinds: Database, kind: str) -> None:
    statement, values = FAILING[kind]

    found = await failure(kinds, Prepared(statement), values)

    assert found
    assert found == await failure(kinds, statement, values)
    # Whatever has happened to the connection.
    assert await failure(kinds, _RANKED, {"least": 0}) == ()
    assert kinds.use.in_use == 0


async def say_goodbye(database: Database) -> None:
    """What a server sends before it closes a connection, of which the end is still on its way."""
    async with database.transaction() as tx:
        driver: Any = (await tx.get_raw_connection()).driver_connection
    fields = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
    driver._protocol.data_received(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)


@pytest.mark.parametrize("statement", [_RANKED, "SELECT :least"])
async def test_a_connection_that_the_server_is_closing_is_away_and_used_once(
    kinds: Database, statement: Prepared | str
) -> None:
    await say_goodbye(kinds)

    found = await failure(kinds, statement, {"least": 0})
    async with kinds.transaction() as tx:
        assert (await tx.execute(text("SELECT 1"))).scalar_one() == 1

    assert found[:2] == (DatabaseUnavailable, True)
    assert (found[-1], kinds.use.in_use) == (True, 0)


async def test_a_transaction_on_a_connection_that_the_server_is_closing_is_away(kinds: Database) -> None:
    await say_goodbye(kinds)

    with pytest.raises(DatabaseUnavailable):
        async with kinds.transaction() as tx:
            await tx.execute(text("SELECT 1"))
    assert await failure(kinds, _RANKED, {"least": 0}) == ()


async def test_a_database_that_takes_no_connections_is_away_for_all_statements(
    kinds: Database, postgres: str, database_url: str
) -> None:
    allow = f"ALTER DATABASE {database_url.rpartition('/')[2]} WITH ALLOW_CONNECTIONS"
    await kinds._engine.dispose()
    admin = await asyncpg.connect(postgres)
    try:
        await admin.execute(f"{allow} false")
        found = await failure(kinds, _RANKED, {"least": 0})
        expected = await failure(kinds, "SELECT 1", {})
        await admin.execute(f"{allow} true")
    finally:
        await admin.close()

    assert found == expected
    assert found[0] is DatabaseUnavailable
    assert await failure(kinds, _RANKED, {"least": 0}) == ()
    assert (kinds.use.in_use, kinds.use.waiting) == (0, 0)


async def test_values_and_constants_of_an_expression_are_passed(kinds: Database) -> None:
    for _ in range(2):
        async with kinds.read() as reader:
            assert await _RANKED.fetch(reader, {"least": 0}) == [{"name": "known"}, {"name": "other"}]
    async with kinds.read() as reader:
        with pytest.raises(KeyError, match="least"):
            await _RANKED.fetch(reader, {})


async def test_it_belongs_to_the_transaction_in_which_it_is_executed(kinds: Database) -> None:
    async def store_and_fail(tx: Transaction) -> None:
        assert await Prepared(_INSERT).fetch(tx, {"name": "new", "rank": 3}) == [{"name": "new"}]
        raise LookupError

    with pytest.raises(LookupError):
        async with kinds.transaction() as tx:
            await store_and_fail(tx)

    assert await rows(kinds, "SELECT name FROM kinds WHERE name = 'new'") == []


async def test_the_connection_of_a_cancelled_statement_is_closed(
    kinds: Database, admin: asyncpg.Connection
) -> None:
    async def execute_it() -> None:
        async with kinds.write() as tx:
            await Prepared("SELECT pg_sleep(:seconds)").fetch(tx, {"seconds": 3600})

    async def sleeping() -> int:
        return int(await admin.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))

    async def executes() -> bool:
        return await sleeping() == 1

    async def is_over() -> bool:
        return await sleeping() == 0

    task = asyncio.create_task(execute_it())
    await until(executes)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert kinds.use.in_use == 0
    await until(is_over)


async def test_a_statement_is_executed_again_after_its_columns_have_changed(kinds: Database) -> None:
    assert await failure(kinds, _RANKED, {"least": 0}) == ()
    await execute(kinds, "ALTER TABLE kinds ALTER name TYPE varchar(20)")

    await failure(kinds, _RANKED, {"least": 0})

    assert await failure(kinds, _RANKED, {"least": 0}) == ()


async def test_it_is_prepared_once_for_a_connection(kinds: Database) -> None:
    prepared = "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT kinds%'"

    async def name() -> Any:
        async with kinds.read() as reader:
            await _RANKED.fetch(reader, {"least": 0})
        return await scalar(kinds, prepared)

    with noted(kinds, "FROM kinds") as found:
        assert await name() == await name()

    assert len(found) == 2
