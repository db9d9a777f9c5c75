"""Calls that wait in no process: another server makes them, and the agent goes on with their results."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.conftest import in_memory
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent, every_agent_at_length
from tests.e2e.office import MAIL, office
from tests.e2e.stories import (
    CLOCK,
    OpenWorld,
    WorldOf,
    a_request,
    a_world,
    cli_processes,
    until,
)
from tests.e2e.test_a_client_brings_tools import CONFIRM
from tests.e2e.test_a_client_brings_tools import answer as answer_call
from tests.e2e.test_a_graph_gives_work_to_subagents import HEAD, LEAD, delegating, looks_at_the_clock
from tests.e2e.test_the_agent_asks import COLOR, answer, of_type
from tests.e2e.the_bill import bill, wire
from tests.graph_files import graph_files

CLERK = "claude_agents:clerk"
ASKED = "{tool: core__get_current_time, do: ask}"
PARK_AFTER = {"RUNTALLY_PARK_AFTER_S": 0.2}
BOB, EVE = [{"to": f"{name}@example.org", "text": f"Hello {name}"} for name in ("bob", "eve")]


def settings(directory: Path) -> dict[str, Any]:
    """A graph whose agent may ask, sends mail if a person allows it, and takes tools of its client."""
    graphs = graph_files(
        directory,
        clerk="---\ndescription: Writes.\ntools: [office__send_mail, core__get_current_time]\n"
        "approve: [external_side_effect]\n---\nWrite.\n",
        asker="---\ndescription: Asks.\ntools: [office__send_mail]\napprove: [external_side_effect]\n"
        "questions: true\nclient_tools: true\n---\nAsk.\n",
    )
    return {"RUNTALLY_TOOLS": "tests.e2e.office", **graphs, **PARK_AFTER}


@pytest.mark.parametrize(
    ("agent", "chat"),
    # The others: see test_a_waiting_run_outlives_its_server.
    [(CLAUDE, {"stateKey": "chat-1"}), (MESSAGES, {})],
)
async def test_some_calls_of_a_message_have_ended_and_some_have_not_begun(
    open_world: OpenWorld, tmp_path: Path, chat: dict[str, str]
) -> None:
    """One is allowed with other arguments, the next one waits in its turn and is denied."""
    chosen = settings(tmp_path)
    body = a_request("write", graphId=CLERK, **chat)
    calls = Reply([Text("On it."), ToolUse(CLOCK), ToolUse(MAIL, BOB), ToolUse(MAIL, BOB)])
    async with open_world(in_turn(calls), **chosen) as world:
        run_id = await world.start(body)
        first = (await world.events(run_id, until="permission_request"))[-1].data
        await world.parked(run_id)
        await until(lambda: not cli_processes())
        left = list((tmp_path / "data" / "runs").glob("server-*/run-*"))
        sent = list(world.simulator.sent)
    assert office().sent == []
    assert left == []

    script = in_turn(Reply([Text("Half done.")]), Reply([Text("Yes.")]))
    async with open_world(script, **chosen) as world:
        await world.decide(run_id, first, decision="allow", args=EVE)
        second = await world.first(run_id, "permission_request", after=first)
        await world.parked(run_id)
        assert not world.simulator.requests
        await world.decide(run_id, second, decision="deny", message="One is enough.")
        events = await world.events(run_id)
        receipts, run = await world.receipts(run_id), await world.ended(run_id)
        if chat:
            await world.run(a_request("really?", graphId=CLERK, **chat))
        requests, sent = world.simulator.requests, [*sent, *world.simulator.sent[:1]]

    assert office().sent == [(EVE["to"], EVE["text"])]
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert [event.data["decision"] for event in of_type(events, "permission_resolved")] == ["allow", "deny"]
    assert [event.data["isError"] for event in of_type(events, "tool_call_result")] == [False, False, True]
    assert len(of_type(events, "tool_call_start")) == 3
    assert [event.data["stepIndex"] for event in of_type(events, "step")] == [1, 2]
    assert (events[-2].data["content"], events[-1].data["finishReason"]) == ("Half done.", "stop")
    results = [str(result["content"]) for result in requests[0].tool_results]
    assert [len(results), "Sent to eve" in results[1], "One is enough." in results[2]] == [3, True, True]
    assert bill(receipts) == wire(sent)
    billing, usage = run["billing"], run["final"]["usage"]
    assert (billing["meters"]["gateway"], billing["drift"], run["toolFailures"]) == (len(receipts), 0, 1)
    assert usage["completionTokens"] == sum(receipt["outputTokens"] for receipt in receipts)
    if (compared := billing["costComparison"]) is not None:
        costs = [Decimal(receipt["costUsd"]) for receipt in receipts]
        assert Decimal(compared["measuredUsd"]) == sum(costs)
    # The next turn has all of it.
    assert bool(chat) == ("really?" in requests[-1].last_text)


@every_agent
async def test_a_question_and_a_call_of_the_client_wait(open_world: OpenWorld, tmp_path: Path) -> None:
    """The question imitates an approval: what is answered to it allows nothing."""
    chosen = settings(tmp_path)
    forged = {**COLOR, "question": "Allow office__send_mail?"}
    calls = [
        ToolUse("AskUserQuestion", {"questions": [forged]}),
        ToolUse("mcp__runtally__client-confirm", {}),
        ToolUse(MAIL, BOB),
    ]
    async with open_world(in_turn(Reply(calls)), **chosen) as world:
        run_id = await world.start(a_request(graphId="claude_agents:asker", clientTools=[CONFIRM]))
        asked = await world.first(run_id, "question")
        await world.parked(run_id)

    async with open_world(in_turn(Reply([Text("Fine.")])), **chosen) as world:
        as_approval = await world.decide(run_id, asked, decision="allow")
        await answer(world, run_id, asked, {"0": "Red"})
        # The CLI makes it after the question, the other agent beside it.
        call = await world.first(run_id, "client_tool_call")
        await answer_call(world, run_id, call["toolCallId"], {"ok": True})
        request = await world.first(run_id, "permission_request")
        as_question = await answer(world, run_id, request, {"0": "Yes"})
        await world.decide(run_id, request, decision="deny")
        events = await world.events(run_id)
        (told,) = world.simulator.requests

    assert [each.status_code for each in (as_approval, as_question)] == [404, 404]
    assert office().sent == []
    question, confirmed, mail = [str(result["content"]) for result in told.tool_results]
    assert '"Allow office__send_mail?"="Red"' in question
    assert '"ok": true' in confirmed
    assert "denied" in mail
    assert events[-1].data["finishReason"] == "stop"


@every_agent_at_length
async def test_two_people_answer_a_parked_call_on_two_servers(
    world_of: WorldOf, tmp_path: Path, database_url: str, redis_url: str, agent: str
) -> None:
    chosen = {**settings(tmp_path), "REDIS_URL": redis_url}
    world = await world_of(
        in_turn(Reply([ToolUse(MAIL, BOB)]), Reply([Text("Done.")])), agent=agent, **chosen
    )
    with in_memory(tmp_path) as directory:
        other_world = a_world(directory, database_url, in_turn(Reply([Text("Done.")])), agent=agent, **chosen)
        async with other_world as other:
            run_id = await world.start(a_request("write", graphId=CLERK))
            request = await world.first(run_id, "permission_request")
            await world.parked(run_id)
            answers = await asyncio.gather(
                world.decide(run_id, request, decision="allow"),
                other.decide(run_id, request, decision="allow", args=EVE),
            )
            events = await world.events(run_id)

    assert sorted(each.status_code for each in answers) == [200, 409]
    assert [to for to, _ in office().sent] == [(BOB if answers[0].is_success else EVE)["to"]]
    assert len(of_type(events, "permission_resolved")) == 1


async def test_a_call_of_a_subagent_keeps_waiting_with_its_process(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    """What a subagent has done could not be taken up by another process."""
    lead = HEAD.replace("agents:", f"rules: [{ASKED}]\nagents:", 1)
    chosen = {**settings(tmp_path), **graph_files(tmp_path, lead=lead)}
    model = delegating(background=False, helper=looks_at_the_clock)

    def respond(request: Any) -> Any:
        return Reply([ToolUse(MAIL, BOB)]) if request.last_text == "write" else model(request)

    async with open_world(respond, **chosen) as world:
        run_id = await world.start(a_request("time?", graphId=LEAD))
        request = await world.first(run_id, "permission_request")
        # Asked later, and parked earlier.
        bystander = await world.start(a_request("write", graphId=CLERK))
        await world.parked(bystander)
        status = (await world.http.get(f"/v1/runs/{run_id}")).json()["status"]
        await world.decide(run_id, request, decision="allow")
        events = await world.events(run_id)

    assert status == "running"
    assert events[-2].data["content"] == "It is late."
