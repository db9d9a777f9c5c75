"""What /readyz says when what it stands for does not work."""

import asyncio
from pathlib import Path

import asyncpg
import httpx
import pytest
from structlog.testing import capture_logs

from app.simulator.script import Hold, Reply, Text, in_turn
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import World, WorldOf, a_request
from tests.environments import pgbouncer
from tests.integration.statements import execute
from tests.patience import PATIENCE_S


async def readiness(world: World, *, until: str) -> httpx.Response:
    """Once it contains this: results are shared for a moment."""
    async with asyncio.timeout(PATIENCE_S):
        while until not in (answer := await world.http.get("/readyz")).text:
            await asyncio.sleep(0.05)
    return answer


async def test_a_server_whose_statements_fail_is_not_ready(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    before = await readiness(world, until='"notifications":"ok"')
    await execute(world.services.database, "ALTER TABLE runs RENAME TO away")
    refused = await readiness(world, until="Not available")
    await execute(world.services.database, "ALTER TABLE away RENAME TO runs")
    restored = await readiness(world, until="degraded")

    assert (before.status_code, before.json()["status"]) == (200, "ok")
    assert (refused.status_code, refused.json()["detail"]) == (503, "Not available: database.")
    assert (restored.status_code, restored.json()["status"]) == (200, "degraded")


async def test_a_server_of_which_some_statements_fail_is_degraded(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    await execute(world.services.database, "ALTER TABLE webhooks RENAME TO away")
    with capture_logs() as logs:
        answers = [await world.http.get("/v1/webhooks") for _ in range(3)]
    ready = (await readiness(world, until="failing")).json()

    assert {answer.status_code for answer in answers} == {500}
    assert (ready["status"], ready["database"]) == ("degraded", "failing")
    assert [line["event"] for line in logs].count("database.statements_fail") == 1
    assert "runtally_database_failing 1.0" in (await world.http.get("/metrics")).text


@pytest.mark.parametrize("state", ["53100", "25006", "42501", "58030"])
async def test_a_server_whose_database_refuses_what_has_to_work_is_degraded(
    world_of: WorldOf, state: str
) -> None:
    """A full disk, one that is read-only, missing privileges, input and output."""
    world = await world_of(in_turn())
    refuse = f"BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END"
    await execute(
        world.services.database, f"CREATE FUNCTION refuse() RETURNS trigger AS $${refuse}$$ LANGUAGE plpgsql"
    )
    trigger = "CREATE TRIGGER refuse BEFORE INSERT ON runs EXECUTE FUNCTION refuse()"
    await execute(world.services.database, trigger)
    with capture_logs() as logs:
        answers = [await world.http.post("/v1/runs", json=a_request()) for _ in range(2)]
    ready = (await readiness(world, until="failing")).json()

    assert [(each.status_code, each.json()["code"]) for each in answers] == [
        (503, "database_unavailable")
    ] * 2
    assert (ready["status"], ready["database"]) == ("degraded", "failing")
    (line,) = (line for line in logs if line["event"] == "database.statements_fail")
    assert state in line["reason"]


async def test_a_server_that_hears_of_nothing_is_degraded(
    world_of: WorldOf, tmp_path: Path, database_url: str
) -> None:
    async with pgbouncer.a_pgbouncer(tmp_path, database_url, mode="transaction") as pooled_url:
        world = await world_of(in_turn(), DATABASE_DIRECT_URL=pooled_url)
        ready = (await readiness(world, until='"notifications":"unavailable"')).json()
        metrics = (await world.http.get("/metrics")).text

    assert (ready["status"], ready["database"]) == ("degraded", "ok")
    assert "runtally_database_notifications 0.0" in metrics


async def test_a_server_that_cannot_create_files_takes_no_runs(world_of: WorldOf) -> None:
    hold = Hold(0)
    answers = in_turn(Reply([Text("one")], hold=hold), Reply([Text("two")]))
    world = await world_of(answers, agent=MESSAGES, RUNTALLY_MAX_CONCURRENT_RUNS=1)
    runs = world.services.settings.data_dir / "runs"
    (files,) = (path for path in runs.iterdir() if path.is_dir())
    await world.start(a_request(runId="r1"))
    await hold.reached.wait()
    await world.start(a_request(runId="r2"))
    away = files.rename(files.with_name("away"))
    refused = await readiness(world, until="Not available")
    new = await world.http.post("/v1/runs", json=a_request())
    shown = (await world.http.get("/metrics")).text
    hold.until.set()
    await world.ended("r1")
    waiting = (await world.http.get("/v1/runs/r2")).json()["status"]
    away.rename(files)
    ended = await world.ended("r2")

    assert (refused.status_code, refused.json()["detail"]) == (503, "Not available: intake of runs.")
    assert (new.status_code, new.json()["code"]) == (503, "disk_unavailable")
    assert str(runs) not in refused.text + new.text
    assert "runtally_disk_writable 0.0" in shown
    assert (waiting, ended["status"]) == ("queued", "succeeded")


async def test_a_process_opens_as_many_connections_as_it_may(world_of: WorldOf, database_url: str) -> None:
    world = await world_of(in_turn(), DATABASE_POOL_SIZE=2)
    answers = await asyncio.gather(*(world.http.get("/v1/runs") for _ in range(12)))
    connection = await asyncpg.connect(database_url)
    opened = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name LIKE 'runtally%'"
    )
    count = await connection.fetchval(opened)
    await connection.close()

    assert {answer.status_code for answer in answers} == {200}
    # One more listens for notifications.
    assert count == 2 + 1
