"""The database through a connection pooler, and notifications that it may swallow."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import text
from structlog.testing import capture_logs

from app.doctor.notifications import check_notifications
from app.ids import new_uuid
from app.platform.db import Database, DatabaseUnavailable
from app.platform.postgres.connecting import application_name
from app.platform.postgres.usability import DatabaseNotUsable
from app.runs.dispatch.records import Worker
from app.runs.recovery.repository import end_connections, has_older_worker, record_worker
from tests.e2e.stories import until
from tests.environments.pgbouncer import a_pgbouncer, a_role
from tests.integration.statements import execute, rows, scalar

AT_ONCE = 40
"""More than the pool has connections, and those more than the pooler has."""


@pytest_asyncio.fixture
async def direct_url(postgres: str) -> AsyncIterator[str]:
    async with a_role(postgres) as url:
        yield url


@pytest_asyncio.fixture
async def pooled_url(direct_url: str, tmp_path: Path) -> AsyncIterator[str]:
    async with a_pgbouncer(tmp_path, direct_url, mode="transaction") as url:
        yield url


@asynccontextmanager
async def an_open(url: str, *, direct_url: str | None = None) -> AsyncIterator[Database]:
    database = await Database.open(url, process_id=new_uuid(), direct_url=direct_url)
    try:
        yield database
    finally:
        await database.aclose()


async def test_statements_of_all_kinds_share_the_connections_of_a_pooler(
    direct_url: str, pooled_url: str
) -> None:
    async with an_open(pooled_url) as database, an_open(direct_url) as direct:
        await execute(database, "CREATE TABLE kept (n int PRIMARY KEY, at timestamptz DEFAULT now())")

        async def use(number: int) -> int:
            async with database.write() as tx:
                await tx.execute(text("INSERT INTO kept VALUES (:n)"), {"n": number})
            async with database.read() as reader:
                read = await reader.execute(text("SELECT n FROM kept WHERE n = :n"), {"n": number})
                found: int = read.scalar_one()
            await execute(database, "UPDATE kept SET n = n + 1000 WHERE n = :n", n=found)
            return int(await scalar(database, "SELECT n FROM kept WHERE n = :n", n=found + 1000))

        for first in (0, AT_ONCE):
            numbers = range(first, first + AT_ONCE)
            assert await asyncio.gather(*map(use, numbers)) == [number + 1000 for number in numbers]

        assert (database.is_pooled, direct.is_pooled) == (True, False)
        assert await scalar(direct, "SHOW idle_in_transaction_session_timeout") == "10s"


async def test_nothing_is_left_in_a_session_that_others_get_next(pooled_url: str) -> None:
    """Neither a prepared statement nor a limit."""
    async with an_open(pooled_url) as database:
        async with database.transaction() as tx:
            within = (await tx.execute(text("SHOW idle_in_transaction_session_timeout"))).scalar_one()
        # A view of one statement has no transaction.
        async with database.read() as reader:
            after = (await reader.execute(text("SHOW idle_in_transaction_session_timeout"))).scalar_one()
        prepared = await rows(database, "SELECT name FROM pg_prepared_statements")

    assert (within, after, prepared) == ("10s", "0", [])


async def test_a_process_that_stands_still_loses_its_transaction_only(
    pooled_url: str, direct_url: str
) -> None:
    """A pooler's connection that is idle may be in use by another process a moment later."""
    stuck_id, idle_id = new_uuid(), new_uuid()
    stuck = await Database.open(pooled_url, process_id=stuck_id)
    idle = await Database.open(direct_url, process_id=idle_id)
    named = "SELECT count(*) FROM pg_stat_activity WHERE application_name = :name"
    async with an_open(pooled_url) as other, stuck.snapshot() as standing_still:
        await standing_still.execute(text("SELECT 1"))
        async with other.write() as tx:
            await end_connections(tx, [stuck_id, idle_id])

        with pytest.raises(DatabaseUnavailable), stuck._watched():
            await standing_still.execute(text("SELECT 1"))
        assert await scalar(other, named, name=application_name(idle_id)) == 1
    await stuck.time()
    await asyncio.gather(stuck.aclose(), idle.aclose())


async def test_through_a_pooler_an_older_process_counts_for_as_long_as_its_lease(database: Database) -> None:
    """Its connections would show that it was killed; through a pooler they are nobody's."""
    killed = Worker(new_uuid(), role="serve", version="0", places=1, taken=0, draining=False, lease_s=3600)
    async with database.write() as tx:
        await record_worker(tx, killed)
    async with database.read() as reader:
        found = [await has_older_worker(reader, new_uuid(), is_pooled=each) for each in (True, False)]

    assert found == [True, False]


@pytest.mark.parametrize("mode", ["direct", "session"])
async def test_notifications_arrive_over_the_direct_url(
    direct_url: str, pooled_url: str, tmp_path: Path, mode: str
) -> None:
    arrived: list[str] = []
    (tmp_path / "session").mkdir()
    async with (
        a_pgbouncer(tmp_path / "session", direct_url, mode="session") as session_url,
        an_open(pooled_url, direct_url={"direct": direct_url, "session": session_url}[mode]) as database,
    ):
        listening = asyncio.create_task(database.listen("ready", arrived.append))
        await until(lambda: database.notifications.state == "ok")
        await execute(database, "SELECT pg_notify('ready', 'a run')")
        await until(lambda: arrived == ["a run"])
        listening.cancel()
        await asyncio.wait([listening])


async def test_doctor_says_what_is_between(pooled_url: str, direct_url: str) -> None:
    async with (
        an_open(direct_url) as direct,
        an_open(pooled_url) as polled,
        an_open(pooled_url, direct_url=direct_url) as both,
        an_open(pooled_url, direct_url=pooled_url) as deaf,
    ):
        found = await asyncio.gather(*map(check_notifications, [direct, polled, both, deaf]))

    assert [check.status for check in found] == ["ok", "warning", "ok", "warning"]
    assert found[0].detail == "no pooler is between; notifications of runs that wait arrive"
    assert all("a connection pooler is before the database" in check.detail for check in found[1:])
    assert "set DATABASE_DIRECT_URL" in found[1].detail
    assert "correct DATABASE_DIRECT_URL" in found[3].detail


@pytest.mark.parametrize("state", ["polled", "unavailable"])
async def test_the_log_says_how_notifications_arrive(pooled_url: str, state: str) -> None:
    """They are polled without a direct URL; one that leads to a pooler is noticed."""
    direct = {} if state == "polled" else {"direct_url": pooled_url}
    async with an_open(pooled_url, **direct) as database:
        with capture_logs() as logs:
            listening = asyncio.create_task(database.listen("ready", lambda _: None))
            await until(lambda: database.notifications.state == state)
            listening.cancel()
            await asyncio.wait([listening])

    assert [line["event"] for line in logs] == [f"notifications.{state}"]


async def test_what_a_pooler_refuses_is_explained(pooled_url: str) -> None:
    url = pooled_url.replace("/owner_", "/other_")
    with pytest.raises(DatabaseNotUsable, match="a pooler before it refuses the connection") as raised:
        await Database.open(url.replace("//other_", "//owner_"))

    assert "no PostgreSQL" not in str(raised.value)
