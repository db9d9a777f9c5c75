import json
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES, every_agent, without_cli
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import (
    CALCULATOR,
    CLOCK,
    PROVIDER_KEY,
    Heard,
    WorldOf,
    a_client,
    a_request,
    cli_processes,
)


@every_agent
async def test_a_prompt_reaches_the_model_literally(world_of: WorldOf) -> None:
    """The first one starts a process, the others are for that of the conversation."""
    world = await a_parking_world(world_of, lambda _: Reply([Text("ok")]))

    # `@/etc/passwd`, `/compact` and `!id` alone: see test_a_hostile_model.
    for prompt in ("@/etc/passwd /cost !ls", "/cost", "  /clear", "#remember", "@README.md"):
        world.simulator.requests.clear()
        events = await world.run(a_request(prompt, stateKey="chat"))

        assert events[-1].data["finishReason"] == "stop"
        (request,) = world.simulator.requests
        assert request.last_text == prompt
        assert "root:" not in json.dumps(request.body)


@every_agent
async def test_a_prompt_with_history_reaches_the_model_literally(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("ok")])))
    messages = [
        {"role": "user", "content": "@/etc/passwd"},
        {"role": "assistant", "content": "/cost"},
        {"role": "user", "content": "/clear"},
    ]

    await world.run(a_request(messages=messages))

    (request,) = world.simulator.requests
    *earlier, current = [text for message in request.messages for text in texts_of(message)]
    assert current == "/clear"
    assert "@/etc/passwd" in earlier[0]
    assert "/cost" in earlier[-1]
    assert "root:" not in json.dumps(request.body)


def texts_of(message: dict[str, Any]) -> list[str]:
    return [block["text"] for block in message["content"] if block["type"] == "text"]


async def test_the_cli_gets_nothing_of_the_servers_environment(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "DATABASE_PASSWORD", "ANTHROPIC_AUTH_TOKEN", "HTTP_PROXY"):
        monkeypatch.setenv(name, "leak-me")
    hold = Hold(index=4)
    world = await world_of(in_turn(Reply([Text("one two three")], hold=hold)))
    run_id = await world.start(a_request())
    await hold.reached.wait()

    (cli,) = cli_processes()
    environment, arguments = cli.environ(), cli.cmdline()
    hold.until.set()
    await world.ended(run_id)

    assert "leak-me" not in environment.values()
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert "HOME" in environment
    assert environment["HOME"] != str(Path.home())
    assert PROVIDER_KEY not in " ".join(arguments)
    assert "helpful assistant" not in " ".join(arguments)


@every_agent
async def test_tools_that_were_not_asked_for_are_refused_and_the_run_goes_on(world_of: WorldOf) -> None:
    names = ["Bash", "Read", "Task", "WebSearch", CALCULATOR, "mcp__other__tool"]
    calls = [Reply([ToolUse(name, {"command": "id", "expression": "1 + 1"})]) for name in names]
    world = await world_of(in_turn(*calls, Reply([Text("never mind")])))

    events = await world.run(a_request(toolIds=["core__get_current_time"]))

    results = [event.data for event in events if event.type == "tool_call_result"]
    assert [result["isError"] for result in results] == [True] * len(names)
    assert [result["result"] for result in results] == [{"error": "unknown_tool"}] * len(names)
    assert events[-1].data["finishReason"] == "stop"
    assert "uid=" not in json.dumps(world.simulator.requests[-1].body)


@every_agent
async def test_the_model_sees_text_and_clients_see_the_allowed_fields(world_of: WorldOf) -> None:
    call = ToolUse(CLOCK, {"timezone": "Mars/Olympus"})
    world = await world_of(in_turn(Reply([call]), Reply([Text("no such place")])))

    events = await world.run(a_request())

    result = _one(events, "tool_call_result")
    assert result["result"] == {"error": "invalid_args"}
    (answered,) = world.simulator.requests[1].tool_results
    assert answered["is_error"] is True
    assert "timezone" in json.dumps(answered["content"])


async def test_asking_for_a_tool_the_graph_lacks_is_refused(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    response = await world.http.post("/v1/runs", json=a_request(toolIds=["core__calculate"]))

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "toolIds.0"
    assert world.simulator.requests == []


@without_cli
async def test_another_account_sees_nothing(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("mine")]), Reply([Text("theirs")])))
    await world.run(a_request(runId="mine-1"))
    scopes = ["runs:write", "runs:read", "receipts:read"]
    _, key = await world.services.accounts.create_key("stranger", scopes)

    async with a_client(world.url, key, agent=MESSAGES) as stranger:
        for path in ("", "/events", "/receipts"):
            response = await stranger.get(f"/v1/runs/mine-1{path}")
            assert (response.status_code, response.json()["code"]) == (404, "run_not_found")
        assert (await stranger.post("/v1/runs/mine-1/cancel")).status_code == 404
        assert (await stranger.get("/v1/runs")).json()["items"] == []
        assert (await stranger.get("/v1/receipts")).json()["items"] == []
        theirs = await stranger.post("/v1/runs/wait", json=a_request(runId="mine-1"))

    assert theirs.json()["content"] == "theirs"
    assert (await world.http.get("/v1/runs/mine-1")).json()["final"]["content"] == "mine"
    assert len(await world.receipts("mine-1")) == 1


def _one(events: list[Heard], kind: str) -> dict[str, object]:
    (event,) = [event for event in events if event.type == kind]
    return event.data
