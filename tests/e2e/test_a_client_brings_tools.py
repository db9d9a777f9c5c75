"""Tools that come with a request: the model calls them, the client executes them."""

import asyncio
from pathlib import Path
from typing import Any

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, blocks_of, in_turn, text_of
from tests.e2e.agents import MESSAGES, every_agent, without_cli
from tests.e2e.stories import ASSISTANT, Heard, World, WorldOf, a_request, a_world
from tests.e2e.test_a_chat_of_the_ai_sdk import says
from tests.graph_files import graph_files
from tests.patience import PATIENCE_S

HELPER = "claude_agents:helper"
COLOR = {
    "name": "pick_color",
    "description": "Pick a color on the screen.",
    "inputSchema": {
        "type": "object",
        "properties": {"about": {"type": "string", "maxLength": 20}},
        "required": ["about"],
    },
}
CONFIRM = {"name": "confirm", "inputSchema": {}}
PICK = "mcp__runtally__client-pick_color"
ASK = "mcp__runtally__client-confirm"


def settings(directory: Path, *, timeout_s: float = 60) -> dict[str, Any]:
    """A graph that takes client tools, and another one that takes only some."""
    head = f"description: Helps.\nclient_tool_timeout_s: {timeout_s}"
    rules = {"helper": "true", "choosy": '{names: "pick_.*"}'}
    texts = {name: f"---\n{head}\nclient_tools: {rule}\n---\nHelp.\n" for name, rule in rules.items()}
    return graph_files(directory, **texts)


@every_agent
async def test_calls_wait_for_the_client_and_the_model_gets_its_results(
    world_of: WorldOf, tmp_path: Path
) -> None:
    """Several at once, also with arguments that are wrong; the next run brings other tools."""
    script = in_turn(
        Reply([Text("Wait."), ToolUse(PICK, {"about": "sky"}), ToolUse(PICK, {"about": "sea"})]),
        Reply([ToolUse(PICK, {"about": "x" * 21})]),
        Reply([Text("So be it.")]),
        Reply([Text("And then?")]),
    )
    world = await world_of(script, **settings(tmp_path))
    run_id = await world.start(a_request(graphId=HELPER, clientTools=[COLOR, CONFIRM], stateKey="c"))

    calls = await waiting(world, run_id, 2)
    assert {call["toolName"] for call in calls} == {"pick_color"}
    # Both begin to wait at the same time.
    picks = {call["args"]["about"]: call["toolCallId"] for call in calls}
    first, second = picks["sky"], picks["sea"]
    done = await answer(world, run_id, second, {"color": "blue", "n": 1})
    again = await answer(world, run_id, second, {"n": 1, "color": "blue"})
    other = await answer(world, run_id, second, {"color": "blue", "n": True})
    unknown = await answer(world, run_id, "none", 1)
    await answer(world, run_id, first, "The window is closed.", isError=True)
    events = await world.events(run_id)
    late = await answer(world, run_id, first, "x")

    assert [each.status_code for each in (done, again, other, unknown, late)] == [200, 200, 409, 404, 409]
    assert [each.json()["code"] for each in (other, unknown, late)] == [
        *("tool_call_answered", "tool_call_not_found", "run_ended")
    ]
    results = {event.data["toolCallId"]: event.data for event in of_type(events, "tool_call_result")}
    assert (results[second]["result"], results[second]["isError"]) == ({"color": "blue", "n": 1}, False)
    assert (results[first]["result"], results[first]["isError"]) == ("The window is closed.", True)
    *_, wrong = results.values()
    assert wrong["result"] == {"error": "invalid_args"}
    assert len(of_type(events, "client_tool_call")) == 2
    starts = of_type(events, "tool_call_start")
    assert {(each.data["toolName"], each.data["isClientTool"]) for each in starts} == {("pick_color", True)}
    told = str([result["content"] for result in world.simulator.requests[1].tool_results])
    assert "The window is closed." in told
    assert '{"color": "blue", "n": 1}' in told

    more = await world.run(a_request("more", graphId=HELPER, clientTools=[CONFIRM], stateKey="c"))
    assert more[-1].data["finishReason"] == "stop"
    requests = world.simulator.requests
    offered = [sorted(name.rpartition("client-")[2] for name in each.tool_names) for each in requests]
    assert (offered[0], offered[-1]) == (["confirm", "pick_color"], ["confirm"])
    history = (await world.http.get("/v1/sessions/c")).json()["messages"]
    assert [each["toolName"] for each in history if each["type"] == "tool_call"] == ["pick_color"] * 3


@without_cli
async def test_tools_that_a_graph_does_not_take_are_left_out_with_a_warning(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(lambda _: Reply([Text("Hi.")]), **settings(tmp_path))

    some = await world.run(a_request(graphId="claude_agents:choosy", clientTools=[COLOR, CONFIRM]))
    none = await world.run(a_request(clientTools=[COLOR]))

    assert [event.type for event in some[:2]] == ["run_started", "warning"]
    assert (some[1].data["code"], some[1].data["names"]) == ("client_tools_ignored", ["confirm"])
    assert none[1].data["names"] == ["pick_color"]
    first, second = world.simulator.requests
    assert first.tool_names == ["client-pick_color"]
    assert "client-pick_color" not in second.tool_names
    graphs = {each["id"]: each for each in (await world.http.get("/v1/graphs")).json()["items"]}
    shown = {name: (each["clientTools"], each["clientToolNames"]) for name, each in graphs.items()}
    assert shown[HELPER] == (True, None)
    assert shown["claude_agents:choosy"] == (True, "pick_.*")
    assert shown[ASSISTANT] == (False, None)


@without_cli
async def test_a_bad_tool_is_named(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(), **settings(tmp_path))
    bombs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 9} for n in range(40)}
    refused: dict[str, Any] = {
        "clientTools.0.name": [{**COLOR, "name": "a b"}],
        "clientTools.1.description": [COLOR, {**CONFIRM, "description": "x" * 4_097}],
        "clientTools.1.inputSchema": [COLOR, {**CONFIRM, "inputSchema": {"type": "array"}}],
        "clientTools.0.inputSchema": [{**COLOR, "inputSchema": {"$ref": "#/$defs/d0", "$defs": bombs}}],
        "clientTools": [{**COLOR, "inputSchema": {"title": "x" * 65_536}}],
    }
    many = [{**CONFIRM, "name": f"t{n}"} for n in range(65)]

    answers = [
        await world.http.post("/v1/runs", json=a_request(graphId=HELPER, clientTools=tools))
        for tools in (*refused.values(), many, [CONFIRM, CONFIRM])
    ]

    assert [each.status_code for each in answers] == [422] * len(answers)
    assert [each.json()["errors"][0]["field"] for each in answers] == [*refused, "clientTools", "clientTools"]


@without_cli
async def test_a_result_by_way_of_another_process_and_by_no_stranger(
    world_of: WorldOf, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    script = in_turn(Reply([ToolUse(ASK, {})]), Reply([Text("I see.")]))
    world = await world_of(script, REDIS_URL=redis_url, **settings(tmp_path))
    run_id = await world.start(a_request(graphId=HELPER, clientTools=[CONFIRM]))
    (call,) = await waiting(world, run_id, 1)
    path, body = f"/v1/runs/{run_id}/tool-results/{call['toolCallId']}", {"result": "yes"}

    async with a_world(tmp_path / "other", database_url, in_turn(), REDIS_URL=redis_url) as other:
        unknown = await answer(other, run_id, "none", "yes")
        keys = [("other", "runs:write"), ("default", "runs:write"), ("default", "runs:read")]
        refused = []
        for account, scope in keys:
            _, key = await world.services.accounts.create_key(account, [scope])
            headers = {"Authorization": f"Bearer {key}"}
            refused.append(await other.http.post(path, json=body, headers=headers))
        good = await answer(other, run_id, call["toolCallId"], "yes")
        different = await answer(other, run_id, call["toolCallId"], "no")
    events = await world.events(run_id)

    codes = [each.json()["code"] for each in (unknown, *refused)]
    assert codes == ["tool_call_not_found", "run_not_found", "forbidden", "forbidden"]
    assert good.json() == {"runId": run_id, "toolCallId": call["toolCallId"]}
    assert different.json()["code"] in {"tool_call_answered", "run_ended"}
    assert [event.data["result"] for event in of_type(events, "tool_call_result")] == ["yes"]


@without_cli
async def test_a_run_that_waits_for_a_chats_client_is_left_once_the_next_one_is_accepted(
    world_of: WorldOf, tmp_path: Path
) -> None:
    script = in_turn(Reply([ToolUse(ASK, {})]), Reply([Text("Never mind.")]))
    world = await world_of(script, **settings(tmp_path))
    path, tools = "/v1/ai-sdk/messages:helper/chat", {"confirm": {"inputSchema": {"type": "object"}}}
    asked = [says(text, text) for text in ("go", "or not")]
    for _ in range(2):
        # Posted again, it only joins its run.
        await world.http.post(path, json={"id": "c", "messages": asked[:1], "tools": tools})
    (run,) = (await world.http.get("/v1/runs")).json()["items"]
    body = {"id": "c", "message": asked[1], "tools": tools}

    refused = await world.http.post(path, json={**body, "model": "none"})
    busy = await world.http.post(path, json={**body, "onConflict": "reject"})
    assert (refused.json()["code"], busy.json()["code"]) == ("unknown_model", "session_busy")
    assert (await world.http.get(f"/v1/runs/{run['runId']}")).json()["status"] == "running"

    accepted = await world.http.post(path, json=body)
    assert " mind." in accepted.text
    left = (await world.http.get(f"/v1/runs/{run['runId']}")).json()
    assert left["final"]["error"] == "aborted"


def asks_and_goes_on(request: ApiRequest) -> Reply:
    """Calls the client, says something about its result, and answers the next message."""
    if "on" in request.last_text.split():
        return Reply([Text("Never mind.")])
    if request.tool_results:
        return Reply([Text("And so.")])
    return Reply([Text("Asking."), ToolUse(ASK, {})])


def heard_result(world: World) -> str:
    """The only result of a tool in what the model was sent last."""
    messages = world.simulator.requests[-1].messages
    (result,) = [block for message in messages for block in blocks_of(message, "tool_result")]
    return text_of(result["content"])


@without_cli
async def test_a_result_that_comes_with_the_next_message_is_heard(
    world_of: WorldOf, tmp_path: Path, agent: str
) -> None:
    """CopilotKit posts nothing after a tool with `followUp: false`, or one that has failed."""
    world = await world_of(asks_and_goes_on, **settings(tmp_path))
    tools = [{"name": "confirm", "description": "c", "parameters": {}}]
    go, on = ({"id": text, "role": "user", "content": text} for text in ("go", "on"))

    async def post(run_id: str, *messages: dict[str, Any]) -> str:
        body = {"threadId": "t", "runId": run_id, "tools": tools, "messages": messages}
        return (await world.http.post(f"/v1/ag-ui/{agent}:helper", json=body)).text

    await post("r1", go)
    (call,) = await waiting(world, "r1", 1)
    asked = {"id": call["toolCallId"], "type": "function", "function": {"name": "confirm", "arguments": "{}"}}
    result = {"id": "t1", "role": "tool", "toolCallId": call["toolCallId"], "content": "yes"}
    said = {"id": "a1", "role": "assistant", "content": "Asking.", "toolCalls": [asked]}
    answers = [await post("r2", go, said, result, on) for _ in range(2)]

    assert all(" mind." in each for each in answers)
    assert (await world.ended("r1"))["final"]["content"] == "And so."
    assert "And so." in answers[0]
    assert heard_result(world) == "yes"


@without_cli
async def test_a_result_that_comes_with_the_next_message_of_a_chat_is_heard(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(asks_and_goes_on, **settings(tmp_path))
    tools = {"confirm": {"inputSchema": {"type": "object"}}}
    go, on = (says(text, text) for text in ("go", "on"))

    async def post(*messages: dict[str, Any]) -> str:
        body = {"id": "c", "trigger": "submit-message", "messages": messages, "tools": tools}
        return (await world.http.post("/v1/ai-sdk/messages:helper/chat", json=body)).text

    await post(go)
    (run,) = (await world.http.get("/v1/runs")).json()["items"]
    (call,) = await waiting(world, run["runId"], 1)
    part = {"type": "tool-confirm", "toolCallId": call["toolCallId"], "state": "output-available"}
    parts = [{"type": "text", "text": "Asking."}, {**part, "input": {}, "output": "yes"}]
    shown = {"id": run["runId"], "role": "assistant", "parts": parts}
    answers = [await post(go, shown, on) for _ in range(2)]

    assert all(" mind." in each for each in answers)
    assert (await world.ended(run["runId"]))["final"]["content"] == "And so."
    assert "And so." not in str(world.simulator.requests[-1].messages)
    assert heard_result(world) == "yes"


@without_cli
async def test_a_run_that_calls_its_client_after_the_next_message_is_left(
    world_of: WorldOf, tmp_path: Path
) -> None:
    """Its person has stopped reading it, and has sent the next message while it wrote."""
    hold = Hold(index=5)
    replies = [Reply([Text("one two three four"), ToolUse(ASK, {})], hold=hold), Reply([Text("Never mind.")])]
    world = await world_of(in_turn(*replies), **settings(tmp_path))
    body = {"threadId": "t", "tools": [{"name": "confirm", "description": "c", "parameters": {}}]}
    go, on = ({"id": text, "role": "user", "content": text} for text in ("go", "on"))
    path = "/v1/ag-ui/messages:helper"

    async with world.http.stream("POST", path, json={**body, "runId": "r1", "messages": [go]}):
        await hold.reached.wait()
    later = asyncio.create_task(world.http.post(path, json={**body, "runId": "r2", "messages": [go, on]}))
    async with asyncio.timeout(PATIENCE_S):
        while (await world.http.get("/v1/runs/r2")).status_code == 404:
            await asyncio.sleep(0.02)
    hold.until.set()

    assert " mind." in (await later).text
    assert (await world.ended("r1"))["final"]["error"] == "aborted"
    assert len(world.simulator.requests) == 2


@without_cli
async def test_a_run_is_left_for_a_message_that_another_process_has_accepted(
    world_of: WorldOf, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    replies = [Reply([ToolUse(ASK, {})]), Reply([Text("Never mind.")])]
    graphs = settings(tmp_path)
    world = await world_of(in_turn(*replies), REDIS_URL=redis_url, **graphs)
    path, tools = "/v1/ai-sdk/messages:helper/chat", {"confirm": {"inputSchema": {"type": "object"}}}

    body = {"id": "c", "tools": tools}
    await world.http.post(path, json={**body, "message": says("go", "u1")})
    (run,) = (await world.http.get("/v1/runs")).json()["items"]
    other_world = a_world(
        tmp_path / "other", database_url, in_turn(replies[1]), REDIS_URL=redis_url, agent=MESSAGES, **graphs
    )
    async with other_world as other:
        accepted = await other.http.post(path, json={**body, "message": says("or not", "u2")})

    assert " mind." in accepted.text
    assert (await world.ended(run["runId"]))["final"]["error"] == "aborted"


async def waiting(world: World, run_id: str, count: int) -> list[dict[str, Any]]:
    """The first so many calls that wait for the client."""
    calls: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        async for event in world.follow(run_id):
            if event.type == "client_tool_call":
                calls.append(event.data)
            if len(calls) == count:
                break
    return calls


async def answer(world: World, run_id: str, call_id: str, result: Any, **fields: Any) -> Any:
    return await world.http.post(
        f"/v1/runs/{run_id}/tool-results/{call_id}", json={"result": result, **fields}
    )


def of_type(events: list[Heard], kind: str) -> list[Heard]:
    return [event for event in events if event.type == kind]
