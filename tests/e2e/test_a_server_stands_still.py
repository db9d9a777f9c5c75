"""A server that is frozen while another takes its run over, and goes on later."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, text_of
from app.simulator.server import Simulator
from tests.e2e.office import TASK, WORKER, settings
from tests.e2e.servers import a_server
from tests.e2e.stories import WorldOf, a_request, said, until

pytestmark = pytest.mark.long

LEASE_S = "4"


async def test_the_next_turn_knows_the_answer_that_was_given_and_the_frozen_server_calls_nothing(
    redis_url: str, world_of: WorldOf, tmp_path: Path, database_url: str
) -> None:
    hold = Hold(index=4)

    def respond(request: ApiRequest) -> Reply:
        if "remember" in request.last_text:
            return Reply([Text("I remember.")])
        if len(simulator.requests) == 1:
            return Reply([Text("This attempt is over."), ToolUse(TASK)], hold=hold)
        return Reply([Text("The answer is seven.")])

    graphs = settings(tmp_path)
    frozen_directory = tmp_path / "frozen"
    frozen_directory.mkdir()
    own = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "RUNTALLY_LEASE_S": LEASE_S,
        "RUNTALLY_TOOLS": graphs["RUNTALLY_TOOLS"],
        "RUNTALLY_GRAPHS_DIR": str(graphs["RUNTALLY_GRAPHS_DIR"]),
    }
    async with Simulator(respond) as simulator:
        shared = {"ANTHROPIC_BASE_URL": simulator.url, "ANTHROPIC_API_KEY": "sk-test"}
        world = await world_of(respond, **{**own, **shared})
        async with a_server(frozen_directory, simulator.url, **own) as (server, http):
            body = a_request("work", runId="run", stateKey="chat", graphId=WORKER)
            await http.post("/v1/runs", json=body)
            reading = asyncio.create_task(world.events("run"))
            await hold.reached.wait()
            with _stopped(server):
                run, events = await world.ended("run"), await reading
                hold.until.set()
                calls = len(simulator.requests)
            await until(lambda: '"event": "run.fenced"' in (frozen_directory / "log").read_text())
            await world.http.post(
                "/v1/runs", json=a_request("remember?", runId="next", stateKey="chat", graphId=WORKER)
            )
            await world.ended("next")
            asked = simulator.requests[-1]
            assert len(simulator.requests) == calls + 1

    assert (run["attempt"], run["final"]["content"]) == (1, "The answer is seven.")
    assert [event.type for event in events].count("done") == 1
    assert said(events).endswith("The answer is seven.")
    said_so_far = [text_of(message["content"]) for message in asked.messages]
    assert "The answer is seven." in said_so_far
    assert not any("This attempt is over." in each for each in said_so_far)
    receipts = await world.receipts("run")
    assert [(receipt["attempt"], receipt["basis"]) for receipt in receipts][-1] == (1, "final")


@contextmanager
def _stopped(server: psutil.Process) -> Iterator[None]:
    """The server and every process it has started stand still, as if their machine did."""
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
