import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.simulator.script import ApiRequest, Hold, HttpError, Reply, Text, ToolUse, in_turn, text_of
from tests.e2e.agents import CLAUDE, MESSAGES, without_cli
from tests.e2e.parking import a_parking_world, process_of
from tests.e2e.stories import (
    ASSISTANT,
    CLOCK,
    World,
    WorldOf,
    a_request,
    contents_below,
    first_text,
    until,
)


def echo(request: ApiRequest) -> Reply:
    """Answer with the last thing said."""
    return Reply([Text(f"You said: {request.last_text}")])


def heard(request: ApiRequest) -> list[tuple[str, str]]:
    """The conversation as the model hears it."""
    return [(message["role"], text_of(message["content"])) for message in request.messages]


async def test_the_next_run_with_the_same_key_goes_on_and_nothing_is_left_on_the_disk(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(echo)

    await said(world, "chat-1", "I am Ada")
    final = await said(world, "chat-1", "who am I?")

    assert final["ok"]
    assert heard(world.simulator.requests[-1]) == [
        ("user", "I am Ada"),
        ("assistant", "You said: I am Ada"),
        ("user", "who am I?"),
    ]
    await until(lambda: not list((tmp_path / "data" / "runs").glob("server-*/*")))
    assert not any(b"I am Ada" in content for content in contents_below(tmp_path / "data"))


async def test_a_run_may_interrupt_the_one_before_it(world_of: WorldOf) -> None:
    hold = Hold(index=5)
    world = await world_of(in_turn(Reply([Text("one two three")], hold=hold), Reply([Text("instead")])))
    first = await world.start(a_request("long story", stateKey="chat-1"))
    shown = await first_text(world, first, deltas=2)
    final = await said(world, "chat-1", "stop that", onConflict="interrupt")

    assert (await world.ended(first))["final"]["error"] == "aborted"
    assert (shown, final["content"]) == ("one two", "instead")
    assert heard(world.simulator.requests[-1])[:2] == [("user", "long story"), ("assistant", "one two")]
    messages = await messages_of(world, "chat-1")
    assert [message.get("partial") for message in messages if message["type"] == "assistant_message"] == [
        True,
        False,
    ]


@without_cli
async def test_a_conversation_shows_what_was_said_and_done(world_of: WorldOf) -> None:
    world = await world_of(
        in_turn(Reply([Text("Let me see."), ToolUse(CLOCK, {"timezone": "UTC"})]), Reply([Text("Noon.")]))
    )
    run_id = await world.start(a_request("What time is it?", stateKey="chat-1"))
    await world.ended(run_id)

    messages = await messages_of(world, "chat-1")
    (listed,) = (await world.http.get("/v1/sessions")).json()["items"]

    assert [message["type"] for message in messages] == [
        "user_message",
        "assistant_message",
        "tool_call",
        "assistant_message",
        "result",
    ]
    assert {message["runId"] for message in messages} == {run_id}
    call = messages[2]
    assert (call["toolName"], call["args"]) == ("core__get_current_time", {"timezone": "UTC"})
    # What clients may see of the result, not what the model saw.
    assert call["isError"] is False
    assert isinstance(call["result"], dict)
    assert messages[-1] == {
        "type": "result",
        "runId": run_id,
        "graphId": ASSISTANT.replace(CLAUDE, MESSAGES),
        "ok": True,
        "error": None,
        "finishReason": "stop",
        "costUsd": (await world.http.get(f"/v1/runs/{run_id}")).json()["billing"]["costUsd"],
        "feedback": None,
    }
    assert (listed["stateKey"], listed["turns"]) == ("chat-1", 1)


@without_cli
async def test_a_fork_does_not_see_later_turns(world_of: WorldOf) -> None:
    world = await world_of(echo)
    first = await world.start(a_request("I am Ada", stateKey="chat-1"))
    await world.ended(first)
    await said(world, "chat-1", "I like tea")

    forked = await world.http.post("/v1/sessions/chat-1/fork", json={"at": first})
    key = forked.json()["stateKey"]
    await said(world, key, "and coffee?")

    assert forked.status_code == 201
    assert forked.headers["location"] == f"/v1/sessions/{key}"
    assert heard(world.simulator.requests[-1]) == [
        ("user", "I am Ada"),
        ("assistant", "You said: I am Ada"),
        ("user", "and coffee?"),
    ]
    assert len(await messages_of(world, "chat-1")) == 6
    # A fork of the fork, from a turn it inherited; the original may be gone.
    await world.http.delete("/v1/sessions/chat-1")
    again = await world.http.post(f"/v1/sessions/{key}/fork", json={"at": first, "stateKey": "third"})
    await said(world, "third", "and water?")
    assert again.status_code == 201
    assert heard(world.simulator.requests[-1])[-2:] == [
        ("assistant", "You said: I am Ada"),
        ("user", "and water?"),
    ]


@without_cli
async def test_what_cannot_be_forked(world_of: WorldOf) -> None:
    world = await world_of(echo)
    await said(world, "chat-1", "hello")
    forks: list[tuple[dict[str, Any], int, str]] = [
        ({"at": "no-such-run"}, 409, "nothing_to_fork"),
        ({"stateKey": "chat-1"}, 409, "session_exists"),
        ({"stateKey": "not a key"}, 422, "invalid_request"),
        ({"run": "x"}, 422, "invalid_request"),
    ]

    for fork, status, code in forks:
        answer = await world.http.post("/v1/sessions/chat-1/fork", json=fork)
        assert (answer.status_code, answer.json()["code"]) == (status, code), fork
    unknown = await world.http.post("/v1/sessions/none/fork", json={})

    assert unknown.json()["code"] == "session_not_found"


@without_cli
async def test_a_forgotten_conversation_begins_anew_and_its_receipts_stay(world_of: WorldOf) -> None:
    world = await world_of(echo)
    run_id = await world.start(a_request("I am Ada", stateKey="chat-1"))
    await world.ended(run_id)

    gone = await world.http.delete("/v1/sessions/chat-1")
    missing = await world.http.get("/v1/sessions/chat-1")
    await said(world, "chat-1", "who am I?")

    assert (gone.status_code, missing.status_code) == (204, 404)
    assert heard(world.simulator.requests[-1]) == [("user", "who am I?")]
    assert len(await world.receipts(run_id)) == 1


async def test_a_client_may_post_its_whole_history(world_of: WorldOf) -> None:
    world = await a_parking_world(world_of, echo)
    history = [turn("user", "Hi"), turn("assistant", "Hello!"), turn("user", "I am Ada")]
    body = a_request(stateKey="chat-1")
    first = (await world.http.post("/v1/runs/wait", json={**body, "messages": history})).json()

    process = process_of(world, "chat-1")
    history += [turn("assistant", first["content"]), turn("user", "who am I?")]
    second = await world.http.post("/v1/runs/wait", json={**body, "messages": history})

    assert second.json()["ok"]
    assert process_of(world, "chat-1") == process
    # Nothing is sent twice: the question alone comes on top of what the session has.
    asked = world.simulator.requests[-1].messages
    assert len(asked) == 3
    assert text_of(asked[-1]["content"]) == "who am I?"
    shown = [message["content"] for message in await messages_of(world, "chat-1") if "content" in message]
    assert shown[:3] == ["Hi", "Hello!", "I am Ada"]


async def test_a_conversation_outgrows_the_models_context(world_of: WorldOf) -> None:
    too_long = HttpError(
        400, "invalid_request_error", message="prompt is too long: 200001 tokens > 200000 maximum"
    )
    summary = Reply([Text("<summary>Ada likes tea.</summary>")])
    before = [Reply([Text("Hello Ada")]), Reply([Text("Tea it is")])]
    after = [Reply([Text("Tea")]), Reply([Text("as I said")])]
    world = await a_parking_world(world_of, in_turn(*before, too_long, summary, *after))
    await said(world, "chat-1", "I am Ada")
    await said(world, "chat-1", "I like tea")

    events = await world.run(a_request("what do I like?", stateKey="chat-1"))
    final = await said(world, "chat-1", "and who am I?")

    assert ("compacting", "Compacting") in [(e.data.get("phase"), e.data.get("label")) for e in events]
    assert final["content"] == "as I said"
    assert "Ada likes tea." in str(world.simulator.requests[-1].messages[0])
    # The call that summed it up is on the bill, though no event tells of it.
    receipts = await world.receipts(events[0].data["runId"])
    assert sorted(receipt["origin"] for receipt in receipts) == ["assistant", "hidden"]
    messages = await messages_of(world, "chat-1")
    assert [message["compaction"] for message in messages if message["type"] == "system_message"] == [True]
    asked = [message["content"] for message in messages if message["type"] == "user_message"]
    assert asked == ["I am Ada", "I like tea", "what do I like?", "and who am I?"]


@pytest.mark.long
async def test_what_is_said_while_the_database_is_away_is_kept_when_it_is_back(
    world_of: WorldOf, postgres: str, database_url: str
) -> None:
    hold = Hold(index=5)
    world = await world_of(in_turn(Reply([Text("one two three")], hold=hold), Reply([Text("four")])))
    run_id = await world.start(a_request("count", stateKey="chat-1"))
    await hold.reached.wait()

    async with away(postgres, database_url):
        hold.until.set()
        # Longer than the SDK tries to keep what was said.
        await asyncio.sleep(3)
    await world.ended(run_id)
    await said(world, "chat-1", "go on")

    assert heard(world.simulator.requests[-1]) == [
        ("user", "count"),
        ("assistant", "one two three"),
        ("user", "go on"),
    ]


@asynccontextmanager
async def away(postgres: str, database_url: str) -> AsyncIterator[None]:
    """Nobody reaches the test's database while the body runs."""
    name = database_url.rpartition("/")[2]
    admin = await asyncpg.connect(postgres)
    try:
        await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        yield
    finally:
        await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        await admin.close()


async def said(world: World, key: str, text: str, **fields: Any) -> dict[str, Any]:
    """Say something in a conversation and wait for the answer."""
    response = await world.http.post("/v1/runs/wait", json=a_request(text, stateKey=key, **fields))
    final: dict[str, Any] = response.raise_for_status().json()
    return final


async def messages_of(world: World, key: str) -> list[dict[str, Any]]:
    """What a conversation shows."""
    response = await world.http.get(f"/v1/sessions/{key}")
    messages: list[dict[str, Any]] = response.raise_for_status().json()["messages"]
    return messages


def turn(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
