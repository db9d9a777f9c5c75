"""A person is asked about a tool once, and allows it for the rest of the conversation."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Hold, Reply, Responder, Text, ToolUse, in_turn
from runtally import AsyncClient
from tests.e2e.agents import MESSAGES, every_agent_at_length, without_cli
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.stories import KEY, Heard, World, WorldOf, a_request
from tests.e2e.test_a_chat_of_the_ai_sdk import V6, a_post, consent, parts_of, says
from tests.e2e.test_a_run_waits_without_a_process import SOON, parking_agents
from tests.e2e.test_an_ag_ui_client_asks import an_answer, an_input, events_of
from tests.e2e.test_the_commands import command, of_program, runtally
from tests.e2e.workshop import calling
from tests.patience import PATIENCE_S

TO_BOB = ToolUse(MAIL, {"to": "bob@example.org", "text": "Hello Bob"})
TO_EVE = ToolUse(MAIL, {"to": "eve@example.org", "text": "Hello Eve"})
DONE = Reply([Text("Done.")])
GRANTS = "/v1/sessions/chat-1/grants"
AG_UI, CHAT = f"/v1/ag-ui/{MESSAGES}:mailer", f"/v1/ai-sdk/{MESSAGES}:mailer/chat"


@every_agent_at_length
async def test_a_conversation_is_asked_once_until_the_grant_is_revoked(
    world_of: WorldOf, tmp_path: Path
) -> None:
    later = ([TO_EVE], *([TO_BOB] for _ in range(3)))
    world = await world_of(of_runs([TO_BOB, TO_EVE], *later), **settings(tmp_path))
    run_id, request = await asked(world, stateKey="chat-1")
    answer = await world.decide(run_id, request, decision="allow_conversation")
    first = await world.events(run_id)
    second = await world.run(a_request("again", graphId=MAILER, stateKey="chat-1"))
    grants = (await world.http.get(GRANTS)).json()["items"]
    fork = (await world.http.post("/v1/sessions/chat-1/fork", json={"stateKey": "chat-2"})).json()

    assert request["grantable"] is True
    assert answer.json()["decision"] == "allow_conversation"
    assert resolutions(first) == [("allow_conversation", "decided"), ("allow", "granted")]
    assert resolutions(second) == [("allow", "granted")]
    assert [to for to, _ in office().sent] == ["bob@example.org", "eve@example.org", "eve@example.org"]
    assert [each["toolName"] for each in grants] == ["office__send_mail"]
    # What was allowed was one conversation; a copy of it is another.
    assert (await world.http.get(f"/v1/sessions/{fork['stateKey']}/grants")).json()["items"] == []
    gone = [await world.http.delete(f"{GRANTS}/{grants[0]['id']}") for _ in range(2)]
    assert [each.status_code for each in gone] == [204, 404]
    for state_key in ("chat-1", "chat-2", "chat-3"):
        run_id, request = await asked(world, stateKey=state_key)
        await world.decide(run_id, request, decision="deny")
        await world.events(run_id)


@parking_agents
async def test_one_decision_lets_a_parked_run_make_all_of_its_calls(
    world_of: WorldOf, tmp_path: Path
) -> None:
    hold = Hold(index=0)
    both = in_turn(Reply([TO_BOB, TO_EVE]), replace(DONE, hold=hold))
    world = await world_of(both, **settings(tmp_path), **SOON)
    run_id, request = await asked(world, stateKey="chat-1")
    await world.parked(run_id)
    inbox = (await world.http.get("/v1/approvals", params={"kind": "approval", "stateKey": "chat-1"})).json()
    answer = await world.decide(run_id, request, decision="allow_conversation")
    again = await world.decide(run_id, request, decision="allow_conversation")
    hold.until.set()
    events = await world.events(run_id)

    (listed,) = inbox["items"]
    assert (listed["requestId"], listed["args"]) == (request["requestId"], request["args"])
    assert inbox["counts"] == {"approval": 1, "question": 0, "clientTool": 0, "budget": 0}
    assert (await world.http.get("/v1/approvals")).json()["items"] == []
    assert (answer.status_code, again.status_code) == (200, 200)
    assert sorted(resolutions(events)) == [("allow", "granted"), ("allow_conversation", "decided")]
    assert sorted(to for to, _ in office().sent) == ["bob@example.org", "eve@example.org"]
    assert len((await world.http.get(GRANTS)).json()["items"]) == 1


@without_cli
async def test_an_ag_ui_client_allows_a_conversation(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(calling(TO_BOB, TO_EVE), **settings(tmp_path))
    (interrupt,) = events_of(await world.http.post(AG_UI, json=an_input()))[-1]["outcome"]["interrupts"]
    forged: list[tuple[dict[str, Any], str]] = [
        ({"approved": True, "forConversation": "always"}, "forConversation"),
        ({"approved": False, "forConversation": True}, "forConversation"),
        ({"approved": True, "scope": "account"}, "scope"),
    ]
    for payload, field in forged:
        refused = await world.http.post(AG_UI, json=an_answer(interrupt, payload=payload))
        assert refused.json()["errors"][0]["field"] == f"resume.0.payload.{field}", refused.text
    allow = an_answer(interrupt, payload={"approved": True, "forConversation": True})
    events = events_of(await world.http.post(AG_UI, json=allow))

    assert interrupt["metadata"]["runtally"]["grantable"] is True
    assert events[-1]["outcome"]["type"] == "success"
    assert len(office().sent) == 2


@pytest.mark.parametrize("agent", [MESSAGES])
async def test_a_chat_of_the_ai_sdk_allows_a_conversation(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(calling(TO_BOB, TO_EVE), **settings(tmp_path))
    request = parts_of(await world.http.post(CHAT, json=a_post(says("write")), headers=V6))
    answer = consent(request, approved=True)
    forged = await world.http.post(CHAT, json={**answer, "approveForConversation": "all"}, headers=V6)
    parts = parts_of(await world.http.post(CHAT, json={**answer, "approveForConversation": True}, headers=V6))

    assert (forged.status_code, forged.json()["errors"][0]["field"]) == (422, "approveForConversation")
    assert "tool-approval-request" not in [part["type"] for part in parts]
    assert len(office().sent) == 2


def of_runs(*runs: list[ToolUse]) -> Responder:
    """A model that makes the calls of one run after the other, each in a message of its own."""
    return in_turn(*(reply for calls in runs for reply in (*(Reply([each]) for each in calls), DONE)))


@without_cli
async def test_people_decide_in_a_terminal_and_with_the_clients(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(of_runs([TO_BOB, TO_EVE], [TO_BOB]), **settings(tmp_path))
    connection = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}
    first, request = await asked(world, stateKey="chat-1")
    # A program of its own: here the server's log lines would be among what it prints.
    listed = (await runtally(tmp_path, "approvals", "list", **connection)).stdout
    place, *_ = listed.split()
    allowed = await command(tmp_path, "approvals", "allow", place, "--conversation", **connection)
    assert allowed.exit_code == 0, allowed.output
    await world.events(first)
    async with AsyncClient(world.url, KEY) as client:
        (grant,) = await client.conversations.grants("chat-1")
        await client.conversations.revoke("chat-1", grant.id)
        assert await client.conversations.grants("chat-1") == []
        second, _ = await asked(world, stateKey="chat-1")
        (waiting,) = [each async for each in client.approvals(kind="approval", run_id=second)]
    await command(
        tmp_path, "approvals", "deny", f"{second}/{waiting.request_id}", "--message", "No.", **connection
    )
    denied = await world.events(second)
    wrong = await command(tmp_path, "approvals", "allow", "not-a-place", **connection)

    assert (wrong.exit_code, "must be RUN/REQUEST" in wrong.stderr) == (2, True)
    assert place == f"{first}/{request['requestId']}"
    assert "office__send_mail" in listed
    assert (waiting.tool_name, waiting.grantable) == ("office__send_mail", True)
    assert resolutions(denied) == [("deny", "decided")]
    assert [to for to, _ in office().sent] == ["bob@example.org", "eve@example.org"]


@without_cli
async def test_a_terminal_shows_what_begins_to_wait_until_it_is_interrupted(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(in_turn(Reply([TO_BOB]), Reply([TO_EVE])), **settings(tmp_path))
    await asked(world)
    environment = of_program(tmp_path, RUNTALLY_URL=world.url, RUNTALLY_API_KEY=KEY)
    arguments = ("-m", "app", "approvals", "watch", "--json")
    watch = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, stdout=PIPE, stderr=PIPE
    )
    assert watch.stdout is not None
    assert watch.stderr is not None
    async with asyncio.timeout(PATIENCE_S):
        greeting = await watch.stderr.readline()
        run_id, request = await asked(world)
        shown = json.loads(await watch.stdout.readline())
        watch.send_signal(signal.SIGINT)
        rest = await watch.communicate()

    assert b"1 wait already" in greeting
    assert (shown["runId"], shown["requestId"], shown["kind"]) == (run_id, request["requestId"], "approval")
    assert (watch.returncode, rest) == (0, (b"", b""))


async def asked(world: World, **fields: Any) -> tuple[str, dict[str, Any]]:
    """Start a run and hear it until a person is asked."""
    run_id = await world.start(a_request("Write", graphId=MAILER, **fields))
    return run_id, (await world.events(run_id, until="permission_request"))[-1].data


def resolutions(events: list[Heard]) -> list[tuple[str, str]]:
    resolved = [event.data for event in events if event.type == "permission_resolved"]
    return [(each["decision"], each["reason"]) for each in resolved]
