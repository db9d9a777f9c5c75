"""The same graphs with the Messages API: what is different, and that clients see no difference."""

from pathlib import Path
from typing import Any

from app.simulator.script import Reply, Text, Thinking, ToolUse, in_turn
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent
from tests.e2e.stories import CALCULATOR, CLOCK, Heard, OpenWorld, World, WorldOf, a_request
from tests.graph_files import graph_files

ASSISTANT = f"{MESSAGES}:assistant"
CODER = "---\ndescription: d\nnative_tools: [Bash]\nagents:\n  a: {description: d, prompt: p}\n---\nCode."


async def turn(world: World, prompt: str, **fields: Any) -> dict[str, Any]:
    body = a_request(prompt, **{"graphId": ASSISTANT, "stateKey": "chat", **fields})
    answer = await world.http.post("/v1/runs/wait", json=body)
    found: dict[str, Any] = answer.json()
    return found


async def test_a_graph_has_an_id_for_each_executor_that_can_run_it(world_of: WorldOf, tmp_path: Path) -> None:
    own = "---\ndescription: d\nprovider: messages\n---\nHi."
    world = await world_of(in_turn(), **graph_files(tmp_path, coder=CODER, own=own))

    listed = {graph["id"] for graph in (await world.http.get("/v1/graphs")).json()["items"]}
    refused = await world.http.post("/v1/runs", json=a_request(graphId=f"{MESSAGES}:coder"))

    assert {f"{CLAUDE}:assistant", ASSISTANT, f"{CLAUDE}:coder", f"{MESSAGES}:own"} <= listed
    assert not {f"{MESSAGES}:coder", f"{CLAUDE}:own"} & listed
    assert (refused.status_code, refused.json()["code"]) == (422, "graph_unsupported")
    assert "native_tools, agents" in refused.json()["detail"]
    assert world.simulator.requests == []


@every_agent
async def test_clients_get_the_same_events(open_world: OpenWorld, agent: str) -> None:
    calls = [ToolUse(CALCULATOR, {"expression": "1+1"}), ToolUse(CLOCK, {}), ToolUse("nothing", {})]
    replies = in_turn(Reply([Thinking("hm"), Text("So I look."), *calls]), Reply([Text("It is two.")]))
    async with open_world(replies) as world:
        events = await world.run(a_request(graphId=f"{CLAUDE}:analyst"))
        receipts = await world.receipts(events[0].data["runId"])

    results = {event.data["toolCallId"]: event.data for event in events if event.type == "tool_call_result"}
    assert [shown(event) for event in events if event.type not in ("tool_call_result", "step")] == [
        ("run_started", f"{agent}:analyst"),
        ("status", "Thinking"),
        ("thinking_delta", "hm"),
        *[("text_delta", piece) for piece in ("So", " I", " look.")],
        ("status", "core__calculate"),
        ("tool_call_start", "core__calculate"),
        ("status", "core__get_current_time"),
        ("tool_call_start", "core__get_current_time"),
        ("status", "nothing"),
        ("tool_call_start", "nothing"),
        *[("text_delta", piece) for piece in ("It", " is", " two.")],
        ("assistant_final", "It is two."),
        ("done", "stop"),
    ]
    assert [event.data["stepIndex"] for event in events if event.type == "step"] == [1, 2]
    assert [result["isError"] for result in results.values()].count(True) == 1
    assert {"error": "unknown_tool"} in [result["result"] for result in results.values()]
    kind = {CLAUDE: "claude_sdk", MESSAGES: "messages_api"}[agent]
    assert [(receipt["executorType"], receipt["origin"]) for receipt in receipts] == [(kind, "assistant")] * 2


def shown(event: Heard) -> tuple[str, Any]:
    """An event by what does not differ from run to run."""
    names = ("graphId", "label", "delta", "toolName", "content", "finishReason")
    return event.type, next((event.data[name] for name in names if name in event.data), None)


async def test_a_conversation_belongs_to_one_executor(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("Hello Ada")]), Reply([Text("You are Ada")])))
    await turn(world, "I am Ada")

    refused = await turn(world, "who am I?", graphId=f"{CLAUDE}:assistant")
    answer = await turn(world, "who am I?")
    conversation = (await world.http.get("/v1/sessions/chat")).json()

    assert (refused["code"], refused["status"]) == ("session_of_other_executor", 409)
    assert answer["content"] == "You are Ada"
    assert conversation["turns"] == 2
    assert len(world.simulator.requests) == 2


async def test_generating_previewing_and_joining_know_nothing_of_it(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("Hello")]))
    body = a_request("hi", graphId=ASSISTANT, runId="once")

    preview = (await world.http.post("/v1/runs/preview", json=body)).json()
    answers = [(await world.http.post("/v1/runs/wait", json=body)).json() for _ in range(2)]

    assert preview["sdkOptions"]["model"] == world.simulator.requests[0].body["model"]
    assert [answer["content"] for answer in answers] == ["Hello", "Hello"]
    assert len(world.simulator.requests) == 1
