"""A run whose calls wait for a person is executed by no process meanwhile, and goes on where it stopped."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.simulator.script import Hold, Reply, Responder, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.stories import CLOCK, Heard, World, WorldOf, a_request, until
from tests.patience import PATIENCE_S

ARGS = {"to": "bob@example.org", "text": "Hello Bob"}
SOON = {"RUNTALLY_PARK_AFTER_S": 0.05}

parking_agents = pytest.mark.parametrize("agent", [MESSAGES])
"""Those whose runs can be parked."""


def one_mail(hold: Hold | None = None) -> Responder:
    return in_turn(Reply([ToolUse(MAIL, ARGS)]), Reply([Text("So be it.")], hold=hold))


async def parked(world: World, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A run that waits in no process, and its request."""
    run_id = await world.start(a_request("mail", graphId=MAILER, **fields))
    events = await world.events(run_id, until="permission_request")
    await world.parked(run_id)
    return run_id, events[-1].data


def kinds(events: list[Heard]) -> list[str]:
    return [event.type for event in events]


@parking_agents
async def test_the_answer_lets_it_go_on_and_nothing_is_done_or_paid_twice(
    world_of: WorldOf, tmp_path: Path
) -> None:
    hold = Hold(index=0)
    world = await world_of(one_mail(hold), **settings(tmp_path), **SOON)
    run_id, request = await parked(world)

    await until(lambda: world.services.dispatcher.places.taken == 0)
    before = await world.events(run_id, until="status")
    answer = await world.decide(run_id, request, decision="allow")
    again = await world.decide(run_id, request, decision="allow")
    hold.until.set()
    rest = await world.events(run_id)

    assert (answer.status_code, again.status_code) == (200, 200)
    assert office().sent == [("bob@example.org", "Hello Bob")]
    assert rest[: len(before)] == before
    assert kinds(rest).count("permission_request") == kinds(rest).count("permission_resolved") == 1
    assert kinds(rest).count("tool_call_start") == kinds(rest).count("tool_call_result") == 1
    assert rest[-1].data["finishReason"] == "stop"
    assert len(world.simulator.requests) == len(await world.receipts(run_id)) == 2


@parking_agents
async def test_its_readers_stay_and_its_conversation_goes_on_behind_it(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(one_mail(), **settings(tmp_path), **SOON)
    body = a_request("mail", graphId=MAILER, stateKey="chat")
    reading = asyncio.create_task(world.run(body))
    await world.accepted(1)
    (run,) = (await world.http.get("/v1/runs")).json()["items"]
    await world.parked(run["runId"])
    later = await world.start(a_request("and then?", graphId=MAILER, stateKey="chat"))
    (request,) = [
        event.data
        for event in await world.events(run["runId"], until="permission_request")
        if event.type == "permission_request"
    ]

    assert (await world.http.get(f"/v1/runs/{later}")).json()["status"] == "queued"
    await world.decide(run["runId"], request, decision="deny", message="Never write to Bob.")
    heard = await reading
    await world.ended(later)

    assert office().sent == []
    assert heard == await world.events(run["runId"])
    (result,) = world.simulator.requests[1].tool_results
    assert "Never write to Bob." in str(result["content"])
    assert "Never write to Bob." in str(world.simulator.requests[2].body["messages"])


@parking_agents
async def test_a_message_that_is_sent_meanwhile_is_part_of_it_when_it_goes_on(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(one_mail(), **settings(tmp_path), **SOON)
    run_id, request = await parked(world)
    sent = await world.http.post(f"/v1/runs/{run_id}/messages", json={"content": "Add my greetings."})
    await world.decide(run_id, request, decision="allow")
    events = await world.events(run_id)

    assert sent.status_code == 202, sent.text
    assert events[-1].data["finishReason"] == "stop"
    assert "Add my greetings." in str(world.simulator.requests[1].messages)
    assert "Add my greetings." not in str(world.simulator.requests[0].messages)
    assert len(world.simulator.requests) == len(await world.receipts(run_id)) == 2


@parking_agents
async def test_arguments_that_a_person_has_changed_are_checked_at_once_and_when_it_goes_on(
    world_of: WorldOf, tmp_path: Path
) -> None:
    mails = in_turn(Reply([ToolUse(MAIL, ARGS)]), Reply([ToolUse(MAIL, ARGS)]), Reply([Text("So be it.")]))
    world = await world_of(mails, **settings(tmp_path), **SOON)
    run_id, request = await parked(world)
    for wrong in ({"to": "no address", "text": "x"}, {"to": "bob@example.org"}):
        path = f"/v1/runs/{run_id}/permissions/{request['requestId']}"
        refused = await world.http.post(path, json={"decision": "allow", "args": wrong})
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"][0]["field"].startswith("args")
    assert (await world.http.get(f"/v1/runs/{run_id}")).json()["status"] == "waiting"
    await world.decide(run_id, request, decision="allow", args={"to": "bob@nowhere", "text": "x"})
    async with asyncio.timeout(PATIENCE_S):
        async for event in world.follow(run_id):
            if event.type == "permission_request" and event.data["requestId"] != request["requestId"]:
                break
    await world.parked(run_id)
    changed = {"to": "alice@example.org", "text": "Hello Alice"}
    await world.decide(run_id, event.data, decision="allow", args=changed)
    events = await world.events(run_id)

    assert office().sent == [("alice@example.org", "Hello Alice")]
    assert [event.data["isError"] for event in events if event.type == "tool_call_result"] == [True, False]


@parking_agents
async def test_a_call_whose_time_is_up_is_denied_and_a_late_answer_refused(
    world_of: WorldOf, tmp_path: Path, database_url: str
) -> None:
    world = await world_of(one_mail(), **settings(tmp_path), **SOON)
    run_id, request = await parked(world)
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE run_waits SET expires_at = now()")
    await connection.close()
    events = await world.events(run_id)
    late = await world.decide(run_id, request, decision="allow")

    assert office().sent == []
    (resolved,) = [event.data for event in events if event.type == "permission_resolved"]
    assert (resolved["decision"], resolved["reason"]) == ("deny", "expired")
    assert late.json()["code"] == "run_ended"


@parking_agents
@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_a_run_that_waits_is_stopped_at_once(world_of: WorldOf, tmp_path: Path, how: str) -> None:
    world = await world_of(one_mail(), **settings(tmp_path), **SOON)
    run_id, request = await parked(world)

    stopped = await world.http.post(f"/v1/runs/{run_id}/{how}")
    events = await world.events(run_id)
    late = await world.decide(run_id, request, decision="allow")

    assert stopped.status_code == 202, stopped.text
    (resolved,) = [event.data for event in events if event.type == "permission_resolved"]
    assert (resolved["decision"], resolved["reason"]) == ("deny", "run_stopped")
    assert [event.type for event in events[-2:]] == ["error", "done"]
    assert late.json()["code"] == "run_ended"
    assert office().sent == []
    assert (await world.http.delete(f"/v1/runs/{run_id}")).status_code == 204


COLOR = {
    "question": "Which color?",
    "header": "Color",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    "multiSelect": False,
}
CONFIRM = {"name": "confirm", "description": "Confirms.", "inputSchema": {"type": "object", "properties": {}}}


@parking_agents
@pytest.mark.parametrize("conversation", [{}, {"stateKey": "chat"}])
async def test_calls_of_one_message_wait_together_and_the_others_are_not_repeated(
    world_of: WorldOf, tmp_path: Path, conversation: dict[str, str]
) -> None:
    """One has ended, one asks a person, one is for the client; the last one has not begun."""
    calls = [
        ToolUse(CLOCK, {"timezone": "UTC"}, id="toolu_clock"),
        ToolUse("AskUserQuestion", {"questions": [COLOR]}, id="toolu_ask"),
        ToolUse("mcp__runtally__client-confirm", {}, id="toolu_confirm"),
        ToolUse(MAIL, ARGS, id="toolu_mail"),
    ]
    chosen = settings(tmp_path)
    (tmp_path / "graphs" / "mailer.md").write_text(
        "---\ndescription: Sends mail.\ntools: [core__get_current_time, office__send_mail]\n"
        "questions: true\nclient_tools: true\n---\nSend mail.\n"
    )
    world = await world_of(in_turn(Reply(calls), Reply([Text("So be it.")])), **chosen, **SOON)
    run_id = await world.start(a_request(graphId=MAILER, clientTools=[CONFIRM], **conversation))
    asked = (await world.events(run_id, until="question"))[-1].data
    await world.events(run_id, until="client_tool_call")
    await world.parked(run_id)

    wrong = await world.http.post(
        f"/v1/runs/{run_id}/questions/{asked['requestId']}", json={"answers": {"1": "Red"}}
    )
    await world.http.post(f"/v1/runs/{run_id}/questions/{asked['requestId']}", json={"answers": {"0": "Red"}})
    still = (await world.http.get(f"/v1/runs/{run_id}")).json()["status"]
    await world.http.post(f"/v1/runs/{run_id}/tool-results/toolu_confirm", json={"result": {"ok": True}})
    events = await world.events(run_id)

    assert (wrong.status_code, still) == (422, "waiting")
    assert office().sent == [("bob@example.org", "Hello Bob")]
    (first, second) = (request.body["messages"] for request in world.simulator.requests)
    assert len(second) == len(first) + 2
    results = {block["tool_use_id"]: block for block in second[-1]["content"]}
    assert list(results) == ["toolu_clock", "toolu_ask", "toolu_confirm", "toolu_mail"]
    assert not any(block.get("is_error") for block in results.values())
    assert "Red" in str(results["toolu_ask"])
    assert kinds(events).count("tool_call_result") == 4
