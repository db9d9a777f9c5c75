"""Interrupt and cancel, in every phase of a run."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.simulator.script import (
    Answer,
    ApiRequest,
    Hold,
    HttpError,
    Reply,
    Responder,
    Text,
    ToolUse,
    in_turn,
    text_of,
)
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent, without_cli
from tests.e2e.office import MAIL, MAILER, TASK, WORKER, office, settings
from tests.e2e.stories import Heard, World, WorldOf, a_request, cli_processes, until, until_sent
from tests.factories import scripted
from tests.scripted import WriteMessage


def model_of(phase: str) -> tuple[Responder, str]:
    """The model of a run that comes to this phase, and its graph."""
    mail = ToolUse(MAIL, {"to": "b@example.org", "text": "x"})
    replies: dict[str, tuple[Responder, str]] = {
        "before init": (lambda _: Reply([Text("late")], headers_delay_s=5), "claude_agents:assistant"),
        "retry wait": (lambda _: HttpError(529, "overloaded_error"), "claude_agents:assistant"),
        "stands still": (lambda _: Reply([Text("unread")]), "claude_agents:assistant"),
        "mid-tool": (in_turn(Reply([ToolUse(TASK)]), Reply([Text("next")])), WORKER),
        "waiting for approval": (in_turn(Reply([mail]), Reply([Text("next")])), MAILER),
    }
    return replies[phase]


async def reached(phase: str, world: World, run_id: str) -> None:
    """Wait until the run is there."""
    match phase:
        case "retry wait":
            await until(lambda: bool(world.simulator.requests))
        case "stands still":
            await until(lambda: bool(world.simulator.requests))
            # It has not written down what it was asked yet, which it does some 0.1 s later.
            for process in cli_processes():
                process.suspend()
        case "mid-tool":
            await office().working.wait()
        case "waiting for approval":
            await world.events(run_id, until="permission_request")


STOPS = [
    (CLAUDE, "before init", "cancel"),
    (CLAUDE, "retry wait", "interrupt"),
    (CLAUDE, "stands still", "interrupt"),
    (CLAUDE, "mid-tool", "cancel"),
    (CLAUDE, "waiting for approval", "interrupt"),
    # Between any two events: see tests/integration/messages_runs.
    *((MESSAGES, "waiting for approval", kind) for kind in ("interrupt", "cancel")),
]


@pytest.mark.parametrize(("agent", "phase", "kind"), STOPS)
async def test_a_run_stops_in_every_phase_and_its_conversation_goes_on(
    world_of: WorldOf, tmp_path: Path, phase: str, kind: str
) -> None:
    responder, graph = model_of(phase)
    broken = True

    def respond(request: ApiRequest) -> Answer | Awaitable[Answer]:
        return responder(request) if broken else Reply([Text("as good as new")])

    world = await world_of(respond, **settings(tmp_path))
    run_id = await world.start(a_request("go", graphId=graph, stateKey="chat-1"))
    await reached(phase, world, run_id)

    answers = [await world.http.post(f"/v1/runs/{run_id}/{kind}") for _ in range(2)]
    events = await world.events(run_id)
    broken = False
    again = await world.http.post("/v1/runs/wait", json=a_request("and now?", stateKey="chat-1"))

    assert [answer.status_code for answer in answers] == [202, 202]
    assert states(events) == [(kind, "requested"), (kind, "acknowledged"), (kind, "stopped")]
    assert [event.data.get("error") for event in events[-2:]] == ["aborted", None]
    run = await world.ended(run_id)
    assert run["status"] == "cancelled"
    assert (run["interruption"]["kind"], run["interruption"]["state"]) == (kind, "stopped")
    assert again.json()["content"] == "as good as new"
    # A message that the model has not got is passed on with the next one.
    assert "go" in str(world.simulator.requests[-1].messages)
    receipts = {receipt["usageUnitId"]: receipt for receipt in await world.receipts(run_id)}
    sent = [message for message in world.simulator.sent[:-1] if message.sent_output]
    assert set(receipts) >= {message.message_id for message in sent}
    assert office().sent == []
    await until(lambda: not cli_processes())


async def held_with_a_message(world: World, hold: Hold) -> tuple[str, asyncio.Task[httpx.Response]]:
    """A run whose answer is held, and a message that waits for its end."""
    run_id = await world.start(a_request("long story"))
    await hold.reached.wait()
    body = {"content": "something else", "priority": "later"}
    sending = asyncio.create_task(world.http.post(f"/v1/runs/{run_id}/messages", json=body))
    await until_sent(world, run_id)
    return run_id, sending


@every_agent
async def test_an_interrupted_turn_makes_way_for_the_message_that_waits(world_of: WorldOf) -> None:
    hold = Hold(index=5)
    world = await world_of(in_turn(Reply([Text("one two three")], hold=hold), Reply([Text("Gladly.")])))
    run_id, sending = await held_with_a_message(world, hold)

    await world.http.post(f"/v1/runs/{run_id}/interrupt")
    events = await world.events(run_id)

    assert states(events) == [
        ("interrupt", "requested"),
        ("interrupt", "acknowledged"),
        ("interrupt", "stopped"),
    ]
    (delivered,) = (event.id for event in events if event.type == "user_message")
    # It waits for two seconds, which a busy machine may take.
    assert (await sending).json()["position"] in {delivered, None}
    assert (await world.ended(run_id))["final"]["content"] == "Gladly."
    assert text_of(world.simulator.requests[-1].messages[-1]["content"]).endswith("something else")
    assert events[-1].data["finishReason"] == "stop"


@every_agent
async def test_a_tool_at_work_may_finish_first(world_of: WorldOf, tmp_path: Path) -> None:
    calls = Reply([ToolUse(TASK)]), Reply([Text("Not asked for.")] * 9), Reply([Text("Instead.")])
    world = await world_of(in_turn(*calls), **settings(tmp_path))
    run_id = await world.start(a_request("go", graphId=WORKER, stateKey="chat-1"))
    await office().working.wait()

    answer = await world.http.post(f"/v1/runs/{run_id}/interrupt", json={"after": "tool"})
    requested = await world.events(run_id, until="interrupted")
    assert not any(event.type == "tool_call_result" for event in requested)
    office().may_end.set()
    events = await world.events(run_id)
    again = await world.http.post("/v1/runs/wait", json=a_request("now?", graphId=WORKER, stateKey="chat-1"))

    assert answer.status_code == 202
    assert [event.data["isError"] for event in events if event.type == "tool_call_result"] == [False]
    assert [state for _, state in states(events)] == ["requested", "acknowledged", "stopped"]
    assert [event.data.get("error") for event in events[-2:]] == ["aborted", None]
    assert again.status_code == 200
    assert "Done." in str(world.simulator.requests[-1].messages)


@without_cli
async def test_a_call_that_waits_for_a_person_is_not_waited_for(world_of: WorldOf, tmp_path: Path) -> None:
    mail = ToolUse(MAIL, {"to": "b@example.org", "text": "x"})
    world = await world_of(in_turn(Reply([mail])), **settings(tmp_path))
    run_id = await world.start(a_request("go", graphId=MAILER))
    await world.events(run_id, until="permission_request")

    await world.http.post(f"/v1/runs/{run_id}/interrupt", json={"after": "tool"})

    assert (await world.ended(run_id))["final"]["error"] == "aborted"
    assert office().sent == []


async def test_a_run_that_has_ended_stays_as_it_is(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("Done.")))
    run_id = await world.start(a_request())
    before, events = await world.ended(run_id), await world.raw(run_id)

    for kind in ("interrupt", "cancel"):
        answer = await world.http.post(f"/v1/runs/{run_id}/{kind}")

        assert (answer.status_code, answer.json()["status"]) == (202, "succeeded")
        assert (await world.ended(run_id), await world.raw(run_id)) == (before, events)
    assert before["interruption"] is None


def states(events: list[Heard]) -> list[tuple[Any, Any]]:
    """How far wishes to stop came, in order."""
    return [(event.data["kind"], event.data["state"]) for event in events if event.type == "interrupted"]
