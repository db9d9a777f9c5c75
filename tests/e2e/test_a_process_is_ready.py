"""CLI processes that are started before anybody needs them."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.executors.claude_agent.process.directory import STARTED_BEFORE
from app.simulator.script import ApiRequest, Reply, Text, ToolUse, in_turn
from tests.e2e.parking import gone, next_ready, pool_of, process_of, start_none_ahead
from tests.e2e.stories import CLOCK, World, WorldOf, a_client, a_request, cli_processes, until
from tests.e2e.test_tools_of_other_peoples_servers import LIBRARIAN, SEARCH, a_library, graphs


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(request.last_text)])


async def test_the_next_run_takes_the_process_that_is_ready_and_nothing_of_one_is_in_the_next(
    world_of: WorldOf,
) -> None:
    world = await world_of(echo, RUNTALLY_IDLE_PROCESSES=1)
    await world.run(a_request("my secret"))
    ready = await one_ready(world)
    environment = ready.environ()
    state = Path(environment["CLAUDE_CONFIG_DIR"]) / ".claude.json"
    # It found nothing to migrate, which would have delayed its start.
    assert json.loads(state.read_text()).items() >= json.loads(STARTED_BEFORE).items()
    # It can call nothing before there is a run.
    async with a_client(environment["ANTHROPIC_BASE_URL"]) as http:
        refused = await http.post("/v1/messages", json={"model": "m", "messages": []})
    assert (refused.status_code, len(world.simulator.requests)) == (403, 1)
    _, secret = await world.services.accounts.create_key("other", ["runs:write", "receipts:read"])

    async with a_client(world.url, secret) as http:
        final = (await http.post("/v1/runs/wait", json=a_request("hello"))).json()
        theirs = (await http.get(f"/v1/runs/{final['runId']}/receipts")).json()["items"]

    assert final["finishReason"] == "stop"
    # It was used and is gone; another one is ready.
    await until(lambda: not ready.is_running())
    assert [request.last_text for request in world.simulator.requests] == ["my secret", "hello"]
    assert "my secret" not in str(world.simulator.requests[-1].body)
    assert len(world.simulator.requests[-1].messages) == 1
    assert len(theirs) == 1
    mine = (await world.http.get("/v1/receipts")).json()["items"]
    assert [receipt["accountId"] for receipt in mine] != [theirs[0]["accountId"]]
    await one_that_died_is_not_used(world, await one_ready(world))


async def one_that_died_is_not_used(world: World, ready: psutil.Process) -> None:
    os.kill(ready.pid, signal.SIGKILL)
    await gone(ready)
    await start_none_ahead(world)

    events = await world.run(a_request("third"))

    assert events[-1].data["finishReason"] == "stop"


@pytest.mark.long
async def test_so_does_a_structured_answer_whose_schema_comes_again(world_of: WorldOf) -> None:
    def answers(request: ApiRequest) -> Reply:
        return Reply([ToolUse("StructuredOutput", {"text": request.last_text})])

    world = await world_of(answers, RUNTALLY_IDLE_PROCESSES=1)
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    body = {"responseFormat": {"type": "json_schema", "schema": schema}}
    for text in ("one", "two"):
        await world.run(a_request(text, **body))
    ready = await next_ready(world)
    await start_none_ahead(world)

    final = (await world.http.post("/v1/runs/wait", json=a_request("three", **body))).json()

    assert final["structuredOutput"] == {"text": "three"}
    await gone(ready)


async def test_and_a_graph_with_an_mcp_server_whose_tools_are_those_of_the_runs_connection(
    world_of: WorldOf, tmp_path: Path
) -> None:
    def searches(request: ApiRequest) -> Reply:
        if request.tool_results:
            return Reply([Text(str(request.tool_results[0]["content"]))])
        return Reply([ToolUse(SEARCH, {"q": request.last_text})])

    async with a_library() as library:
        world = await world_of(searches, RUNTALLY_IDLE_PROCESSES=1, **graphs(tmp_path, library.server()))
        await world.run(a_request("Ada", graphId=LIBRARIAN))
        ready = await next_ready(world)
        await start_none_ahead(world)

        final = (await world.http.post("/v1/runs/wait", json=a_request("Grace", graphId=LIBRARIAN))).json()

    assert "found Grace" in final["content"]
    await gone(ready)


async def test_processes_are_ready_when_the_server_is_and_gone_when_it_is(
    open_world: Any, tmp_path: Path
) -> None:
    async with open_world(
        in_turn(Reply([ToolUse(CLOCK)]), Reply([Text("late")])), RUNTALLY_IDLE_PROCESSES=4
    ) as world:
        await until(lambda: len(cli_processes()) == 2)
        final = (await world.http.post("/v1/runs/wait", json=a_request(stateKey="chat"))).json()
        assert process_of(world, "chat").is_running()

    assert final["content"] == "late"
    assert cli_processes() == []
    assert not any((tmp_path / "data" / "runs").glob("server-*/run-*"))


async def one_ready(world: World) -> psutil.Process:
    """The one process that waits, once it is warm and every other is gone."""
    pool = pool_of(world)
    found: list[psutil.Process] = []

    def alone() -> bool:
        found[:] = cli_processes()
        ready = [
            idle.cli.process for idle in pool._idle if idle.parked is None and idle.cli.process._connected
        ]
        return len(ready) == 1 and [process.pid for process in found] == [ready[0].pid]

    await until(alone)
    return found[0]
