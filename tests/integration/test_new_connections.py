"""What a connection to the database, or a pool of them, costs that is not the first of its process."""

from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import asyncpg
from sqlalchemy import UUID, func, literal, select
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.engine.interfaces import CacheStats

from app.platform.db import Database
from app.platform.postgres.connecting import Connector

ARRAYS = "SELECT $1::uuid[], $2::int[], $3::bytea[]"


async def asked_by(connector: Connector, statement: str, *values: object) -> tuple[list[Any], int]:
    """The answer to a new connection's statement, and how often that asked about types."""
    logged: list[str] = []
    connection = await connector.connect()
    try:
        connection.add_query_logger(lambda record: logged.append(record.query))
        answer = await connection.fetchrow(statement, *values)
    finally:
        await connection.close()
    assert answer is not None
    return list(answer), sum("pg_type" in query for query in logged)


async def test_types_of_postgres_itself_are_asked_for_once(database_url: str) -> None:
    connector, values = Connector(database_url), [[uuid4()], [7], [b"seven"]]
    await asked_by(connector, ARRAYS, *values)

    assert await asked_by(connector, ARRAYS, *values) == (values, 0)
    assert await asked_by(Connector(database_url, statement_s=30), ARRAYS, *values) == (values, 0)


async def test_types_of_a_database_are_asked_for_by_each_connection(database_url: str) -> None:
    """Another database may have another type of this number."""
    connector, admin = Connector(database_url), await asyncpg.connect(database_url)
    await admin.execute("CREATE TYPE mood AS ENUM ('calm', 'glad')")
    await admin.close()

    for _ in range(2):
        assert await asked_by(connector, "SELECT $1::mood[]", ["calm"]) == ([["calm"]], 1)


async def test_the_password_that_was_generated_is_not_stretched(postgres: str) -> None:
    """Which is for words that a person can remember, and takes a millisecond of CPU for each connection."""
    admin = await asyncpg.connect(postgres)
    stored = await admin.fetchval("SELECT rolpassword FROM pg_authid WHERE rolname = current_user")
    await admin.close()

    assert stored.startswith("SCRAM-SHA-256$1:")


async def test_a_statement_is_compiled_once_for_all_databases_with_the_same_json(database_url: str) -> None:
    def dumped(_value: object) -> str:
        return '"another"'

    connector = Connector(database_url)
    engines = connector.engine(), connector.engine(), connector.engine(json_serializer=dumped)
    statement = select(literal({"a": 1}, JSON), literal(uuid4(), UUID))
    answers, hits = [], []
    for engine in engines:
        async with engine.connect() as connection:
            answer = await connection.execute(statement)
            answers.append(answer.one()[0])
            hits.append(answer.context.cache_hit is CacheStats.CACHE_HIT)
        await engine.dispose()

    assert answers == [{"a": 1}, {"a": 1}, "another"]
    assert hits == [False, True, False]


async def test_statements_in_succession_use_the_connection_that_was_used_last(database_url: str) -> None:
    """The others would check whether they are still connected, and prepare the same statements."""
    database, statement = await Database.open(database_url, pool_size=3), select(func.pg_backend_pid())
    try:
        async with AsyncExitStack() as stack:
            at_once = [await stack.enter_async_context(database.read()) for _ in range(3)]
            processes = {(await reader.execute(statement)).scalar_one() for reader in at_once}
        in_succession = set()
        for _ in range(6):
            async with database.read() as reader:
                in_succession.add((await reader.execute(statement)).scalar_one())
    finally:
        await database.aclose()

    assert len(processes) == 3
    assert len(in_succession) == 1
