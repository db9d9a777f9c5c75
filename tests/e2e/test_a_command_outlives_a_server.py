"""Commands to runs whose server is killed, or stands still, before it can answer."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text
from app.simulator.server import Simulator
from tests.e2e.agents import named, without_cli
from tests.e2e.office import WORKER, settings
from tests.e2e.servers import a_server
from tests.e2e.stories import World, WorldOf, a_request, until_sent
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.long

LEASE_S = 1.5


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A run that another server executes, and a world beside it."""

    world: World
    server: psutil.Process
    simulator: Simulator
    resumed: Hold
    """In the answer to the run's next attempt."""


@asynccontextmanager
async def a_run_on_another_server(
    world_of: WorldOf, directory: Path, agent: str, **shared: str
) -> AsyncIterator[Elsewhere]:
    """A run that has begun to answer."""
    first, second = Hold(index=4), Hold(index=0)

    def respond(request: ApiRequest) -> Reply:
        if "Rome" in request.last_text:
            return Reply([Text("It rains in Rome.")])
        is_first = len(simulator.requests) == 1
        return Reply([Text("one two three four")], hold=first if is_first else second)

    graphs = settings(directory)
    own = {
        **shared,
        "RUNTALLY_LEASE_S": str(LEASE_S),
        "RUNTALLY_TOOLS": graphs["RUNTALLY_TOOLS"],
        "RUNTALLY_GRAPHS_DIR": str(graphs["RUNTALLY_GRAPHS_DIR"]),
    }
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    async with Simulator(named(agent, respond)) as simulator:
        provider = {"ANTHROPIC_BASE_URL": simulator.url, "ANTHROPIC_API_KEY": "sk-test"}
        world = await world_of(respond, **own, **provider)
        async with a_server(elsewhere, simulator.url, agent=agent, **own) as (server, http):
            await http.post("/v1/runs", json=a_request("work", runId="run", stateKey="chat", graphId=WORKER))
            await first.reached.wait()
            yield Elsewhere(world, server, simulator, second)
            first.until.set()


@without_cli
async def test_a_message_is_answered_by_the_server_that_takes_the_run_over(
    redis_url: str, world_of: WorldOf, tmp_path: Path, database_url: str, agent: str
) -> None:
    urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    async with a_run_on_another_server(world_of, tmp_path, agent, **urls) as there:
        there.server.kill()
        world = there.world
        sending = asyncio.create_task(
            world.http.post("/v1/runs/run/messages", json={"content": "And in Rome?"})
        )
        await there.resumed.reached.wait()
        await until_sent(world, "run")
        there.resumed.until.set()
        sent = await sending
        run = await world.ended("run")
        events = await world.events("run")

    assert sent.status_code == 202, sent.text
    assert (run["attempt"], run["status"], run["final"]["content"]) == (1, "succeeded", "It rains in Rome.")
    delivered = [event for event in events if event.type == "user_message"]
    assert [event.data["content"] for event in delivered] == ["And in Rome?"]


@without_cli
async def test_a_cancelled_run_is_not_resumed_although_its_server_has_not_heard_of_it(
    redis_url: str, world_of: WorldOf, tmp_path: Path, database_url: str, agent: str
) -> None:
    urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    async with a_run_on_another_server(world_of, tmp_path, agent, **urls) as there:
        world = there.world
        there.server.send_signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(PATIENCE_S):
                cancelled = await world.http.post("/v1/runs/run/cancel")
            requested = (await world.http.get("/v1/runs/run")).json()
            run = await world.ended("run")
            events = await world.events("run")
        finally:
            there.server.send_signal(signal.SIGCONT)
        calls = len(there.simulator.requests)

    assert (cancelled.status_code, cancelled.json()["status"]) == (202, "running")
    assert requested["interruption"]["kind"] == "cancel"
    assert (run["attempt"], run["status"]) == (0, "cancelled")
    assert (run["final"]["error"], run["final"]["finishReason"]) == ("aborted", "aborted")
    assert [event.type for event in events[-2:]] == ["error", "done"]
    assert calls == 1
