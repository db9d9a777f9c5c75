"""Schedules that are due while the database is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from app.platform.db import Database
from tests.factories import an_open_database
from tests.integration import schedule_server
from tests.integration.test_schedule_races import LEASE, runs_of
from tests.patience import PATIENCE_S

STARTED = "SELECT count(*) FROM schedule_runs WHERE outcome = 'started'"
BROKEN = 25
"""How often all connections break."""


@asynccontextmanager
async def working(*servers: schedule_server.ScheduleServer) -> AsyncIterator[None]:
    """Let the workers of these servers work."""
    tasks = [asyncio.create_task(server.worker.work()) for server in servers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_connections_that_break_while_runs_are_started_cost_none_and_double_none(
    database: Database, database_url: str, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    clock = schedule_server.SetClock()
    breaking = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    async with (
        an_open_database(database_url) as other,
        schedule_server.a_schedule_server(database, tmp_path / "a", clock=clock) as first,
        schedule_server.a_schedule_server(other, tmp_path / "b", clock=clock) as second,
    ):
        schedules = [await first.schedule() for _ in range(20)]
        clock.now = schedule_server.NOON + schedule_server.MINUTE
        async with working(first, second):
            for _ in range(BROKEN):
                await admin.fetchval(breaking)
                await asyncio.sleep(0.02)
            # What was claimed by then is claimed again, twice.
            async with asyncio.timeout(PATIENCE_S):
                while (
                    await admin.fetchval("SELECT count(*) FROM schedule_runs WHERE outcome = 'started'") < 20
                ):
                    clock.go_on(LEASE / 100)
                    await asyncio.sleep(0.01)
        for schedule in schedules:
            (due,) = await first.history(schedule)
            assert (due.outcome, due.due_at) == ("started", schedule_server.NOON + schedule_server.MINUTE)
            assert await runs_of(database, schedule) == [due.run_id]
        await first.ended()
        await second.ended()
