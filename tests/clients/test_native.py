"""The native wire with common clients: `eventsource` under Node, `httpx-sse`, typed TypeScript."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import HttpError, Reply, Text, ToolUse, in_turn
from tests.clients.node import HERE, compile_typescript, node
from tests.e2e.stories import ASSISTANT, CALCULATOR, KEY, World, WorldOf, a_request

NASTY = "one\u2028two\u2029three\u0085four\r\nfive \U0001f469\u200d\U0001f680 \x0b six"
HUGE = "x" * 1_000_000


async def received_events(world: World, run_id: str) -> list[dict[str, Any]]:
    """The events that `httpx-sse` receives."""
    received = [event async for event in world.follow(run_id)]
    return [{"id": str(event.id), "type": event.type, "data": event.data} for event in received]


@pytest.mark.parametrize("cut_after", [700, 500_000], ids=["between two events", "amid a line of 1 MB"])
async def test_a_reader_that_reconnects_receives_every_event_once(world_of: WorldOf, cut_after: int) -> None:
    world = await world_of(
        in_turn(
            Reply([Text(NASTY), ToolUse(CALCULATOR, {"expression": "6*7"})]),
            Reply([Text(HUGE), Text(" end")]),
        )
    )
    await world.run(a_request(runId="wire-1", graphId="claude_agents:analyst"))

    reader = {"url": world.url, "key": KEY, "runId": "wire-1", "cutAfter": cut_after}
    printed = json.loads(await node("native.mjs", given=json.dumps(reader)))

    assert printed["connections"] == 2
    assert printed["received"] == await received_events(world, "wire-1")
    deltas = [event["data"]["delta"] for event in printed["received"] if event["type"] == "text_delta"]
    assert "".join(deltas) == NASTY + HUGE + " end"


async def test_streamed_events_have_the_types_of_the_document(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(
        in_turn(
            Reply([Text("Let me see."), ToolUse(CALCULATOR, {"expression": "6*7"})]),
            Reply([Text("42")]),
            HttpError(400, "invalid_request_error"),
            Reply([Text("Again."), ToolUse(CALCULATOR, {"expression": "6*7"})]),
            Reply([Text("42")]),
        )
    )
    events = [*await world.run(a_request()), *await world.run(a_request())]
    streamed = json.dumps([event.data for event in events])
    program = (HERE / "typed.ts").read_text().replace("[/* what was streamed */]", streamed)
    program = program.replace("[/* what AG-UI was told */]", await events_over_ag_ui(world))
    (tmp_path / "typed.ts").write_text(program)

    document = (await world.http.get("/openapi.json")).text
    await compile_typescript(tmp_path, "typed.ts", document=document, check_only=True)

    assert {event.type for event in events} >= {"tool_call_result", "assistant_final", "error", "done"}


async def events_over_ag_ui(world: World) -> str:
    posted = {"threadId": "t-1", "runId": "r-1", "messages": [{"id": "u", "role": "user", "content": "hi"}]}
    response = await world.http.post(f"/v1/ag-ui/{ASSISTANT}", json=posted)
    lines = response.raise_for_status().text.split("\n")
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert '"type":"RUN_FINISHED"' in events[-1]
    return f"[{','.join(events)}]"
