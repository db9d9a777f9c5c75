"""DATABASE_READ_URL: lists and reports come from a real replica, which is late, away, or another database."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.doctor.examination import examine
from app.platform.db import Database, Snapshot
from app.platform.read_side import ReadSide
from app.simulator.script import Reply, Text
from tests.conftest import a_database
from tests.e2e.agents import without_cli
from tests.e2e.stories import World, WorldOf, a_request, the_settings
from tests.environments.replica import Replica, a_replica
from tests.integration.statements import execute, scalar, until
from tests.integration.test_readiness import readiness
from tests.patience import PATIENCE_S


def answer(_: Any) -> Reply:
    return Reply([Text("Fine.")])


@pytest_asyncio.fixture
async def replica(memory_path: Path, database_url: str) -> AsyncIterator[Replica]:
    async with a_replica(memory_path, database_url) as made:
        yield made


async def a_run(world: World) -> str:
    """The id of a run that has ended."""
    run_id = str((await world.http.post("/v1/runs", json=a_request())).json()["runId"])
    async with asyncio.timeout(PATIENCE_S):
        while (await world.http.get(f"/v1/runs/{run_id}")).json()["status"] != "succeeded":
            await asyncio.sleep(0.05)
        while not (await world.http.get(f"/v1/runs/{run_id}/receipts")).json()["items"]:
            await asyncio.sleep(0.05)
    return run_id


async def listed(world: World) -> list[str]:
    return [each["runId"] for each in (await world.http.get("/v1/runs")).json()["items"]]


async def answers(world: World) -> dict[str, httpx.Response]:
    """Of everything that is read from the replica."""
    paths = ["/v1/runs", "/v1/receipts", "/v1/usage", "/v1/reconciliation", "/v1/reconciliation/differences"]
    return {path: await world.http.get(path) for path in paths}


async def exported(world: World) -> dict[str, httpx.Response]:
    return {path: await world.http.get(path) for path in ("/v1/receipts?format=csv", "/v1/chain")}


@without_cli
async def test_lists_and_reports_say_up_to_when_they_are_complete(
    world_of: WorldOf, replica: Replica
) -> None:
    world = await world_of(answer, DATABASE_READ_URL=replica.url)
    first = await a_run(world)

    async def is_listed() -> bool:
        usage = (await world.http.get("/v1/usage")).json()
        return "asOf" in usage and first in await listed(world) and usage["total"]["receipts"] == 1

    await until(is_listed)
    await replica.pause()
    paused_at = await scalar(world.services.database, "SELECT clock_timestamp()")
    second = await a_run(world)
    late = await answers(world)
    exports = await exported(world)
    one, own = await world.http.get(f"/v1/runs/{second}"), await world.http.get(f"/v1/runs/{second}/receipts")
    await replica.resume()

    async def are_listed() -> bool:
        return second in await listed(world)

    await until(are_listed)

    assert [each["runId"] for each in late["/v1/runs"].json()["items"]] == [first]
    assert late["/v1/usage"].json()["total"]["receipts"] == 1
    assert [each["runId"] for each in late["/v1/receipts"].json()["items"]] == [first]
    assert all(datetime.fromisoformat(each.json()["asOf"]) <= paused_at for each in late.values())
    assert all(second not in each.text for each in exports.values())
    assert all(
        datetime.fromisoformat(each.headers["Runtally-As-Of"]) <= paused_at for each in exports.values()
    )
    assert one.json()["status"] == "succeeded"
    assert own.json()["items"]
    assert "asOf" not in one.json() | own.json()


@without_cli
async def test_the_primary_answers_while_the_replica_is_away(world_of: WorldOf, replica: Replica) -> None:
    world = await world_of(answer, DATABASE_READ_URL=replica.url)
    run_id = await a_run(world)
    # Until the first heartbeat of the first server has arrived there.
    before = await readiness(world, until='"readDatabase":"ok"')
    await replica.stop()
    found = await answers(world)
    exports = await exported(world)
    away = (await readiness(world, until='"readDatabase":"unavailable"')).json()
    metrics = (await world.http.get("/metrics")).text
    await replica.start()

    async def is_back() -> bool:
        return "asOf" in (await world.http.get("/v1/usage")).json()

    await until(is_back)

    assert before.json()["status"] == "ok"
    assert {each.status_code for each in (*found.values(), *exports.values())} == {200}
    assert [each["runId"] for each in found["/v1/runs"].json()["items"]] == [run_id]
    assert not any("asOf" in each.json() for each in found.values())
    assert not any("Runtally-As-Of" in each.headers for each in exports.values())
    assert away["status"] == "degraded"
    assert "runtally_read_database_available 0.0" in metrics


async def test_a_read_that_fails_on_the_replica_is_made_on_the_primary(
    database: Database, replica: Replica
) -> None:
    await a_heartbeat(database)
    late = Database.replica(replica.url, None)
    reading = ReadSide(database, late)
    await until(lambda: _is_used(reading))
    await replica.pause()
    # As after a migration that has not arrived.
    await execute(database, "CREATE TABLE newer AS SELECT 7 AS number")
    found, as_of = await reading.read(lambda chosen: scalar(chosen, "SELECT number FROM newer"))
    await replica.resume()
    await late.aclose()

    assert (found, as_of) == (7, None)
    assert "newer" in str(reading.problem)


async def test_a_statement_that_is_too_slow_is_not_repeated_on_the_primary(
    database: Database, replica: Replica
) -> None:
    await a_heartbeat(database)
    late = Database.replica(replica.url, None)
    reading, asked = ReadSide(database, late), list[Database]()
    await until(lambda: _is_used(reading))

    async def too_slow(chosen: Database) -> Snapshot:
        asked.append(chosen)
        async with chosen.snapshot():
            raise TimeoutError

    with pytest.raises(Exception, match="unavailable"):
        await reading.read(too_slow)
    await late.aclose()

    assert asked == [late]


async def test_a_database_without_our_servers_is_not_used(database: Database, postgres: str) -> None:
    async with a_database(postgres) as other_url:
        other = Database.replica(other_url, None)
        reading = ReadSide(database, other)
        chosen = await reading.choose()
        await other.aclose()

    assert chosen == (database, None)
    assert "heartbeat" in str(reading.problem)


async def test_the_doctor_knows_whether_the_replica_is_used(
    tmp_path: Path, database: Database, database_url: str, replica: Replica
) -> None:
    await a_heartbeat(database)
    settings = the_settings(tmp_path, database_url, "http://127.0.0.1:9", DATABASE_READ_URL=replica.url)
    late = Database.replica(replica.url, None)
    reading = ReadSide(database, late)
    await until(lambda: _is_used(reading))
    await late.aclose()

    async def check() -> Any:
        report = await examine(settings, environ={}, file_variables=[], with_probe=False)
        return next(each for each in report.checks if each.name == "read_database")

    there = await check()
    await replica.stop()
    away = await check()

    assert (there.status, away.status) == ("ok", "warning")
    assert "reachable" in there.detail
    assert "DATABASE_READ_URL cannot be used" in away.detail
    assert json.dumps(replica.url.split(":")[2].split("@")[0]) not in away.detail


async def a_heartbeat(database: Database) -> None:
    """As of a server that uses this database."""
    await execute(
        database,
        "INSERT INTO workers (process_id, version, places, taken, draining, lease_s, role, started_at,"
        " seen_at) VALUES (gen_random_uuid(), '1', 1, 0, false, 15, 'serve', now(), now())",
    )


async def _is_used(reading: ReadSide) -> bool:
    await reading.check()
    return reading.problem is None
