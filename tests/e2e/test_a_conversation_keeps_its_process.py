"""A conversation's process between its turns: who may use it again, and who may not."""

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.simulator.script import ApiRequest, Reply, Text, ToolUse, text_of
from tests.e2e.auditing import heard
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.parking import a_parking_world, gone, parked, pool_of, process_of
from tests.e2e.stories import (
    CLOCK,
    KEY,
    World,
    WorldOf,
    a_client,
    a_request,
    contents_below,
    until,
)
from tests.e2e.test_a_graph_gives_work_to_subagents import LEAD
from tests.e2e.test_a_graph_gives_work_to_subagents import graphs as lead_graphs
from tests.e2e.the_bill import bill, wire
from tests.unit.tools.extensions.packages import install


def echo(request: ApiRequest) -> Reply:
    if "time" in request.last_text and not request.tool_results:
        return Reply([Text("Let me see."), ToolUse(CLOCK, {"timezone": "UTC"})])
    return Reply([Text(f"You said: {request.last_text}")])


async def turn(world: World, text: str, key: str = "chat-1", *, secret: str = KEY, **fields: Any) -> Any:
    """A turn of a conversation; its final event."""
    async with a_client(world.url, secret) as http:
        response = await http.post("/v1/runs/wait", json=a_request(text, stateKey=key, **fields))
    return response.raise_for_status().json()


def questions(request: ApiRequest) -> list[str]:
    """What the model sees of the user's messages."""
    return [text_of(message["content"]) for message in request.messages if message["role"] == "user"]


async def test_the_next_turns_are_served_by_the_same_process(world_of: WorldOf) -> None:
    world = await a_parking_world(world_of, echo)
    finals = [await turn(world, "one")]
    process = process_of(world, "chat-1")
    for text in ("two", "what time is it?", "four"):
        finals.append(await turn(world, text))
        assert process_of(world, "chat-1") == process

    assert [final["content"] for final in finals[::3]] == ["You said: one", "You said: four"]
    assert [text for text in questions(world.simulator.requests[-1]) if text] == [
        *("one", "two", "what time is it?", "four")
    ]
    runs = [final["runId"] for final in finals]
    receipts = [receipt for run_id in runs for receipt in await world.receipts(run_id)]
    assert bill(receipts) == wire(world.simulator.sent)
    assert [len(await world.receipts(run_id)) for run_id in runs] == [1, 1, 2, 1]
    for run_id in runs:
        billing = (await world.http.get(f"/v1/runs/{run_id}")).json()["billing"]
        assert (billing["drift"], billing["costComparison"]["driftUsd"]) == (0, "0.0000000000")
    shown = (await world.http.get("/v1/sessions/chat-1")).json()["messages"]
    assert {message["runId"] for message in shown} == set(runs)


async def test_a_crash_between_turns_is_nobodys_error(world_of: WorldOf) -> None:
    world = await a_parking_world(world_of, echo)
    await turn(world, "one")
    process = process_of(world, "chat-1")
    os.kill(process.pid, signal.SIGKILL)
    await gone(process)

    final = await turn(world, "two")

    assert final["ok"]
    assert questions(world.simulator.requests[-1]) == ["one", "two"]
    assert process_of(world, "chat-1") != process


async def test_between_turns_a_process_reaches_nothing_and_its_tools_answer_nobody(world_of: WorldOf) -> None:
    world = await a_parking_world(world_of, echo)
    await turn(world, "one")
    environment = process_of(world, "chat-1").environ()
    (kept,) = pool_of(world).parked()

    async with a_client(environment["ANTHROPIC_BASE_URL"]) as http:
        refused = await http.post("/v1/messages", json={"model": "m", "messages": []})
    result = await kept.cli.bridge.calls.run("core__get_current_time", {}, "toolu_1")

    assert refused.status_code == 403
    assert "No tool is called before there is a run." in result.markdown
    assert len(world.simulator.requests) == 1


async def test_consent_and_its_mode_belong_to_one_run(world_of: WorldOf, tmp_path: Path) -> None:
    """A run that was allowed everything leaves nothing of that to the next run on its process."""

    def mails(request: ApiRequest) -> Reply:
        if request.tool_results:
            return Reply([Text("Done.")])
        return Reply([ToolUse(MAIL, {"to": "bob@example.org", "text": request.last_text})])

    world = await a_parking_world(world_of, mails, **settings(tmp_path))
    body = {"graphId": MAILER, "stateKey": "chat-1"}
    first = await world.start(a_request("first", **body))
    request_id = await asked(world, first)
    await world.http.patch(f"/v1/runs/{first}", json={"permissionMode": "bypassPermissions"})
    await world.http.post(f"/v1/runs/{first}/permissions/{request_id}", json={"decision": "allow"})
    await world.ended(first)
    process = process_of(world, "chat-1")

    second = await world.start(a_request("second", **body))
    request_id = await asked(world, second)
    stale = await world.http.post(f"/v1/runs/{first}/permissions/{request_id}", json={"decision": "allow"})
    await world.http.post(f"/v1/runs/{second}/permissions/{request_id}", json={"decision": "deny"})
    await world.ended(second)

    assert stale.status_code in {404, 409}
    assert [text for _, text in office().sent] == ["first"]
    assert process_of(world, "chat-1") == process


async def test_subagents_and_hooks_belong_to_the_run_that_has_the_process(
    world_of: WorldOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In full mode, where the CLI calls hooks in the context in which it was started."""
    install(tmp_path, monkeypatch, hooks={"audit": "tests.e2e.auditing:Audit"})
    heard.clear()

    def delegates(request: ApiRequest) -> Reply:
        if "You are the clock-watcher" in request.system:
            done = bool(request.tool_results)
            return Reply([Text("Ten to twelve.")]) if done else Reply([ToolUse(CLOCK, {"timezone": "UTC"})])
        if request.tool_results:
            return Reply([Text("It is late.")])
        work = {"description": "time", "prompt": "What time is it?", "subagent_type": "clock-watcher"}
        return Reply([ToolUse("Agent", work)])

    world = await a_parking_world(world_of, delegates, **lead_graphs(tmp_path))
    runs = []
    for _ in range(2):
        runs.append((await turn(world, "time?", graphId=LEAD))["runId"])
        process = process_of(world, "chat-1")

    assert process.is_running()
    # The same hooks for the first and for the second run, each under its own name.
    of_a_run = ("session_start", "before_tool", "before_tool", "after_tool", "after_tool", "session_end")
    assert [(context.run.run_id, method) for method, context, *_ in heard] == [
        (run_id, method) for run_id in runs for method in of_a_run
    ]
    heard.clear()
    for run_id in runs:
        origins = [receipt["origin"] for receipt in await world.receipts(run_id)]
        assert sorted(origins) == ["assistant", "assistant", "subagent", "subagent"]


async def asked(world: World, run_id: str) -> str:
    *_, request = await world.events(run_id, until="permission_request")
    return str(request.data["requestId"])


async def test_a_deleted_conversations_process_ends_and_the_next_of_its_name_knows_nothing(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await a_parking_world(world_of, echo, idle=4)
    await turn(world, "my secret")
    process = process_of(world, "chat-1")

    await world.http.delete("/v1/sessions/chat-1")
    # At once, before anybody has noticed that the conversation is gone.
    await turn(world, "who am I?")

    assert questions(world.simulator.requests[-1]) == ["who am I?"]
    await gone(process)
    await until(lambda: parked(world) == ["chat-1"])
    await until(lambda: not any(b"my secret" in text for text in contents_below(tmp_path / "data" / "runs")))


async def test_a_process_belongs_to_one_account_and_ends_with_its_key(world_of: WorldOf) -> None:
    world = await a_parking_world(world_of, echo, idle=4)
    theirs, secret = await world.services.accounts.create_key("other", ["runs:write", "runs:read"])
    await turn(world, "mine")
    await turn(world, "theirs", secret=secret)
    assert questions(world.simulator.requests[-1]) == ["theirs"]
    assert len(parked(world)) == 2
    mine, other = (process_of_account(world, number) for number in range(2))

    await world.services.accounts.revoke_key(theirs.id)

    await gone(other)
    assert mine.is_running()


def process_of_account(world: World, number: int) -> psutil.Process:
    found = pool_of(world).parked()[number].cli.process.directory.pid_file
    return psutil.Process(int(found.read_text()))
