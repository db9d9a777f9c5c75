"""CLI processes that are started before anybody needs them."""

import os
import signal
from pathlib import Path
from typing import Any

import psutil

from app.executors.aggregator import ExecutorAggregator
from app.executors.claude_agent.executor import ClaudeAgentExecutor
from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, in_turn
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.stories import CLOCK, World, WorldOf, a_client, a_request, cli_processes, until

OTHERS: list[dict[str, Any]] = [
    {"model": "claude-haiku-4-5"},
    {"toolIds": []},
    {"limits": {"maxTurns": 1}},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]},
    {"stateKey": "chat-1"},
    {"responseFormat": {"type": "json_schema", "schema": {"type": "object"}}},
]
"""What a process that is ready was not started for."""


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(request.last_text)])


async def test_the_next_run_takes_the_process_that_is_ready(world_of: WorldOf) -> None:
    world = await world_of(echo, RUNTALLY_WARM_POOL=1)
    await world.run(a_request("first"))
    ready = await one_ready(world)

    events = await world.run(a_request("second"))

    assert events[-1].data["finishReason"] == "stop"
    # It was used and is gone; another one is ready.
    await until(lambda: not ready.is_running())
    await one_ready(world)
    assert [request.last_text for request in world.simulator.requests] == ["first", "second"]


async def test_nothing_of_one_run_is_in_the_next(world_of: WorldOf) -> None:
    world = await world_of(echo, RUNTALLY_WARM_POOL=1)
    await world.run(a_request("my secret"))
    await one_ready(world)
    _, secret = await world.services.accounts.create_key("other", ["runs:write", "receipts:read"])

    async with a_client(world.url, secret) as http:
        final = (await http.post("/v1/runs/wait", json=a_request("hello"))).json()
        theirs = (await http.get(f"/v1/runs/{final['runId']}/receipts")).json()["items"]

    assert "my secret" not in str(world.simulator.requests[-1].body)
    assert len(world.simulator.requests[-1].messages) == 1
    assert len(theirs) == 1
    mine = (await world.http.get("/v1/receipts")).json()["items"]
    assert [receipt["accountId"] for receipt in mine] != [theirs[0]["accountId"]]


async def test_a_run_that_needs_another_process_gets_its_own(world_of: WorldOf) -> None:
    world = await world_of(echo, RUNTALLY_WARM_POOL=1)
    await world.run(a_request("first"))

    for other in OTHERS:
        ready = await one_ready(world)
        await world.run({**a_request("next"), **other})

        asked = world.simulator.requests[-1]
        assert (asked.body["model"] == "claude-haiku-4-5") == ("model" in other), other
        assert ("Be brief." in str(asked.body["system"])) == ("messages" in other), other
        assert (CLOCK in asked.tool_names) == ("toolIds" not in other), other
        if set(other) & {"stateKey", "responseFormat"}:
            assert ready.is_running(), other


async def test_a_process_that_died_while_it_waited_is_not_used(world_of: WorldOf) -> None:
    world = await world_of(echo, RUNTALLY_WARM_POOL=1)
    await world.run(a_request("first"))
    ready = await one_ready(world)
    os.kill(ready.pid, signal.SIGKILL)
    await until(lambda: not ready.is_running() or ready.status() == psutil.STATUS_ZOMBIE)

    events = await world.run(a_request("second"))

    assert events[-1].data["finishReason"] == "stop"


async def test_tools_and_consent_belong_to_the_run_that_took_the_process(
    world_of: WorldOf, tmp_path: Path
) -> None:
    def mails(request: ApiRequest) -> Reply:
        if request.tool_results:
            return Reply([Text("Done.")])
        return Reply([ToolUse(MAIL, {"to": "bob@example.org", "text": request.last_text})])

    world = await world_of(mails, RUNTALLY_WARM_POOL=1, **settings(tmp_path))
    for text in ("first", "second"):
        run_id = await world.start(a_request(text, graphId=MAILER))
        request_id = await asked(world, run_id)
        path = f"/v1/runs/{run_id}/permissions/{request_id}"
        await world.http.post(path, json={"decision": "allow"})
        assert (await world.ended(run_id))["final"]["ok"]
        await one_ready(world)

    assert [text for _, text in office().sent] == ["first", "second"]


async def test_a_ready_process_can_call_nothing_before_there_is_a_run(world_of: WorldOf) -> None:
    world = await world_of(echo, RUNTALLY_WARM_POOL=1)
    await world.run(a_request("first"))
    environment = (await one_ready(world)).environ()

    async with a_client(environment["ANTHROPIC_BASE_URL"]) as http:
        answer = await http.post("/v1/messages", json={"model": "m", "messages": []})

    assert answer.status_code == 403
    assert len(world.simulator.requests) == 1


async def test_processes_are_ready_when_the_server_is_and_gone_when_it_is(
    open_world: Any, tmp_path: Path
) -> None:
    async with open_world(
        in_turn(Reply([ToolUse(CLOCK)]), Reply([Text("late")])), RUNTALLY_WARM_POOL=2
    ) as world:
        await until(lambda: len(cli_processes()) == 2)
        final = (await world.http.post("/v1/runs/wait", json=a_request())).json()

    assert final["content"] == "late"
    assert cli_processes() == []
    assert not any((tmp_path / "data" / "runs").glob("server-*/run-*"))


async def test_a_cancel_of_a_run_in_a_process_that_was_ready(world_of: WorldOf) -> None:
    hold = Hold(index=5)
    world = await world_of(in_turn(Reply([Text("first")]), Reply([Text("one two three")], hold=hold)))
    await world.run(a_request("first"))
    run_id = await world.start(a_request("second"))
    await hold.reached.wait()

    await world.http.post(f"/v1/runs/{run_id}/cancel")

    assert (await world.ended(run_id))["final"]["error"] == "aborted"
    bases = [receipt["basis"] for receipt in await world.receipts(run_id)]
    assert bases == ["partial"]


async def one_ready(world: World) -> psutil.Process:
    """The one process that waits, once every other is gone."""
    aggregator = world.services.previewer.executor
    assert isinstance(aggregator, ExecutorAggregator)
    executor = aggregator._executors["claude_agents"]
    assert isinstance(executor, ClaudeAgentExecutor)
    pool = executor._starter._pool
    found: list[psutil.Process] = []

    def alone() -> bool:
        found[:] = cli_processes()
        ready = [cli.process._directory.pid_file for _, cli in pool._idle]
        pids = [path.read_text().strip() for path in ready if path.exists()]
        return len(ready) == 1 and pids == [str(process.pid) for process in found]

    await until(alone)
    return found[0]


async def asked(world: World, run_id: str) -> str:
    async for event in world.follow(run_id):
        if event.type == "permission_request":
            return str(event.data["requestId"])
    raise AssertionError
