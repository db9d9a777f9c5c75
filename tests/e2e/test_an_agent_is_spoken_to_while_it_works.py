import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, in_turn, text_of
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent
from tests.e2e.office import TASK, WORKER, office, settings
from tests.e2e.stories import World, WorldOf, a_request, until, until_sent


def texts(request: ApiRequest) -> list[str]:
    """Everything users say in a request."""
    return [text_of(message["content"]) for message in request.messages if message["role"] == "user"]


@every_agent
async def test_a_message_during_a_tool_is_heard_in_the_same_turn(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(
        in_turn(Reply([Text("On it."), ToolUse(TASK)]), Reply([Text("Both done.")])), **settings(tmp_path)
    )
    run_id = await world.start(a_request("work", graphId=WORKER))
    await office().working.wait()

    sending = asyncio.create_task(send(world, run_id, "and be quick"))
    await until_sent(world, run_id)
    office().may_end.set()
    sent = await sending
    events = await world.events(run_id)

    # The CLI tells it after the tool's result; newer models hear of it in a system message of its own.
    assert "and be quick" in str(world.simulator.requests[-1].body["messages"][-1])
    assert len(world.simulator.requests) == 2
    (taken,) = [event for event in events if event.type == "user_message"]
    assert taken.data["content"] == "and be quick"
    # Acknowledged with the position at which it took effect.
    assert sent["messageId"] == taken.data["messageId"]
    assert sent["position"] in {taken.id, None}
    kinds = [event.type for event in events]
    assert kinds.index("tool_call_result") < kinds.index("user_message") < kinds.index("assistant_final")
    assert kinds.count("done") == 1


@pytest.mark.parametrize(
    ("agent", "priority", "first_turn"),
    [
        (CLAUDE, "next", "one two three four"),
        *((agent, "now", "one two") for agent in (CLAUDE, MESSAGES)),
    ],
)
async def test_a_message_during_a_text(world_of: WorldOf, priority: str, first_turn: str) -> None:
    hold = Hold(index=5)
    world = await world_of(in_turn(Reply([Text("one two three four")], hold=hold), Reply([Text("Yes.")])))
    run_id = await world.start(a_request("count", stateKey="chat-1"))
    await hold.reached.wait()

    sending = asyncio.create_task(send(world, run_id, "are you there?", priority=priority))
    await until_sent(world, run_id)
    if priority == "now":
        # It breaks off a text that would else never end.
        await sending
        await until(lambda: world.simulator.sent[0].disconnected)
    hold.until.set()
    sent = await sending
    events = await world.events(run_id)

    (final,) = [event.data for event in events if event.type == "assistant_final"]
    assert final == {
        "type": "assistant_final",
        "content": "Yes.",
        "structuredOutput": None,
        "at": final["at"],
    }
    asked = world.simulator.requests[-1].messages
    assert [text_of(message["content"]) for message in asked] == ["count", first_turn, "are you there?"]
    (taken,) = [event for event in events if event.type == "user_message"]
    assert sent["position"] in {taken.id, None}
    # One receipt for each message of the model, also for the one that was broken off.
    bases = {receipt["usageUnitId"]: receipt["basis"] for receipt in await world.receipts(run_id)}
    first, second = world.simulator.sent
    assert bases == {
        first.message_id: "partial" if priority == "now" else "final",
        second.message_id: "final",
    }


@every_agent
async def test_a_run_that_fails_names_the_message_that_it_has_not_got(world_of: WorldOf) -> None:
    hold = Hold(index=5)
    world = await world_of(in_turn(Reply([Text("one two three four")], hold=hold), Reply([Text("Yes.")])))
    run_id = await world.start(a_request("count", stateKey="chat-1"))
    await hold.reached.wait()

    sent = await send(world, run_id, "are you there?", priority="later")
    await world.http.post(f"/v1/runs/{run_id}/cancel")
    events = await world.events(run_id)

    assert sent["position"] is None
    (warning,) = [event.data for event in events if event.type == "warning"]
    assert (warning["code"], warning["names"]) == ("messages_not_delivered", [sent["messageId"]])
    assert "user_message" not in [event.type for event in events]
    assert len(world.simulator.requests) == 1
    assert events[-2].data["error"] == "aborted"


async def test_a_message_before_the_agent_is_up(world_of: WorldOf) -> None:
    """It never overtakes what the run was asked first."""
    world = await world_of(lambda request: Reply([Text(request.last_text)]))
    run_id = await world.start(a_request("first"))

    sent = await send(world, run_id, "second", priority="now")
    events = await world.events(run_id)

    (taken,) = [event for event in events if event.type == "user_message"]
    assert taken.data["content"] == "second"
    assert sent["position"] in {taken.id, None}
    assert events[-1].data["finishReason"] == "stop"
    # If it breaks off the first answer before its first word, both are one message to the model.
    asked = "\n".join(texts(world.simulator.requests[-1]))
    assert (asked.startswith("first"), asked.endswith("second")) == (True, True)


async def test_a_bad_message_names_its_field(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    wrong = {"content": {"content": ""}, "priority": {"content": "x", "priority": "soon"}}

    answers = [await world.http.post("/v1/runs/any/messages", json=body) for body in wrong.values()]

    assert [answer.json()["errors"][0]["field"] for answer in answers] == list(wrong)


async def send(world: World, run_id: str, content: str, **options: Any) -> dict[str, Any]:
    """Say something to a running agent."""
    headers = options.pop("headers", {})
    body = {"content": content, **options}
    response = await world.http.post(f"/v1/runs/{run_id}/messages", json=body, headers=headers)
    assert response.status_code == 202, response.text
    answer: dict[str, Any] = response.json()
    return answer
