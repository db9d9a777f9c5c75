from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.simulator.script import Answer, ApiRequest, Reply, Text, ToolUse
from tests.e2e.stories import CALCULATOR, CLOCK, WorldOf, a_request, cli_processes, until
from tests.e2e.the_bill import bill, wire
from tests.graph_files import graph_files

LEAD = "claude_agents:lead"
HEAD = """---
description: Leads.
tools: [core__get_current_time, core__calculate]
agents:
  clock-watcher:
    description: Knows the time.
    prompt: You are the clock-watcher.
    tools: [core__get_current_time]
    model: claude-haiku-4-5
---
You lead.
"""


def graphs(directory: Path) -> dict[str, Any]:
    return graph_files(directory, lead=HEAD)


def delegating(*, background: bool, helper: Callable[[ApiRequest], Answer]) -> Callable[[ApiRequest], Answer]:
    def answer(request: ApiRequest) -> Answer:
        if "You are the clock-watcher" in request.system:
            return helper(request)
        if len(request.messages) == 1:
            work = {"description": "time", "prompt": "What time is it?", "subagent_type": "clock-watcher"}
            return Reply([ToolUse("Agent", {**work, "run_in_background": background})])
        return Reply([Text("It is late.")])

    return answer


def looks_at_the_clock(request: ApiRequest) -> Answer:
    if len(request.messages) == 1:
        return Reply([Text("Let me look."), ToolUse(CLOCK)])
    return Reply([Text("Ten to twelve.")])


async def test_a_subagent_works_in_the_foreground_and_is_attributed(
    world_of: WorldOf, tmp_path: Path
) -> None:
    """Also if the model wants it in the background; see test_a_conversation_keeps_its_process for others."""
    model = delegating(background=True, helper=looks_at_the_clock)
    world = await world_of(model, **graphs(tmp_path))

    events = await world.run(a_request("time?", graphId=LEAD))

    (call,) = [event for event in events if event.data.get("toolName") == "Agent"]
    call_id = call.data["toolCallId"]
    of_agent = [event for event in events if event.data.get("parentToolCallId") == call_id]
    assert {event.type for event in of_agent} >= {"text_delta", "tool_call_start", "tool_call_result"}
    assert (
        "".join(e.data["delta"] for e in of_agent if e.type == "text_delta") == "Let me look.Ten to twelve."
    )
    final = (await world.ended(events[0].data["runId"]))["final"]
    assert (final["content"], final["finishReason"]) == ("It is late.", "stop")
    # What a tool of the CLI's own answered is for the model.
    results = {e.data["toolCallId"]: e.data for e in events if e.type == "tool_call_result"}
    assert (results[call_id]["result"], results[call_id]["isError"]) == ({}, False)
    receipts = await world.receipts(events[0].data["runId"])
    assert bill(receipts) == wire(world.simulator.sent)
    subagents = [receipt for receipt in receipts if receipt["origin"] == "subagent"]
    assert {receipt["parentToolCallId"] for receipt in subagents} == {call_id}
    assert {receipt["model"] for receipt in subagents} == {"claude-haiku-4-5"}
    run = (await world.http.get(f"/v1/runs/{events[0].data['runId']}")).json()
    assert run["billing"]["drift"] == 0
    assert run["toolFailures"] == 0
    await until(lambda: not cli_processes())


async def test_a_subagent_has_its_own_tools_only(world_of: WorldOf, tmp_path: Path) -> None:
    def calculates(request: ApiRequest) -> Answer:
        if len(request.messages) == 1:
            return Reply([ToolUse(CALCULATOR, {"expression": "1+1"}), ToolUse("Bash", {"command": "id"})])
        return Reply([Text("I cannot.")])

    world = await world_of(delegating(background=False, helper=calculates), **graphs(tmp_path))

    await world.run(a_request("time?", graphId=LEAD))

    helper = [r for r in world.simulator.requests if "You are the clock-watcher" in r.system]
    assert helper[0].tool_names == [CLOCK]
    assert [result.get("is_error") for result in helper[1].tool_results] == [True, True]


async def test_a_budget_ends_a_run_in_its_subagent(world_of: WorldOf, tmp_path: Path) -> None:
    def spends(_request: ApiRequest) -> Answer:
        return Reply([ToolUse(CLOCK)], final_usage={"output_tokens": 900})

    world = await world_of(delegating(background=False, helper=spends), **graphs(tmp_path))

    events = await world.run(a_request("go", graphId=LEAD, limits={"maxTotalTokens": 1000}))

    assert events[-2].data["error"] == "rate_limit"
    assert events[-1].data["finishReason"] == "budget"
    assert bill(await world.receipts(events[0].data["runId"])) == wire(world.simulator.sent)
