"""A message whose run ended before the model got it stays on the screen: the next run passes it on."""

from typing import Any

import pytest

from app.simulator.script import Hold, Reply, Text
from tests.e2e.agents import CLAUDE, MESSAGES
from tests.e2e.stories import World, WorldOf, a_request
from tests.e2e.test_a_chat_of_the_ai_sdk import conversation_of, says
from tests.e2e.test_a_conversation_branches import posted, shown

DOCUMENT = {"type": "document", "text": "a dot", "title": "t"}


async def cancelled(world: World, *, behind: Hold, messages: list[Any]) -> list[str]:
    """Post these messages one after another behind a run that is held, and cancel their runs."""
    await behind.reached.wait()
    runs = [
        await world.start({**a_request(stateKey="chat-1"), "messages": [{"role": "user", "content": each}]})
        for each in messages
    ]
    for run_id in runs:
        (await world.http.post(f"/v1/runs/{run_id}/cancel")).raise_for_status()
        await world.ended(run_id)
    behind.until.set()
    return runs


async def held(world_of: WorldOf) -> tuple[World, Hold, str]:
    """A world whose first answer is held, and the run that waits for it; answer N is `aN b`."""
    hold = Hold(index=3)
    answers = iter(range(10))
    world = await world_of(
        lambda _: Reply([Text(f"a{(index := next(answers))} b")], hold=hold if index == 0 else None),
        agent=MESSAGES,
    )
    return world, hold, await world.start(a_request("M1", stateKey="chat-1"))


@pytest.mark.parametrize("agent", [MESSAGES, CLAUDE])
async def test_a_message_that_waited_when_its_chat_was_stopped_is_heard_with_the_next(
    world_of: WorldOf, agent: str
) -> None:
    hold = Hold(index=3)
    replies = iter([Reply([Text("one two three")], hold=hold), Reply([Text("Third.")])])
    world = await world_of(lambda _: next(replies), agent=agent)
    chat = f"/v1/ai-sdk/{agent}:assistant/chat"

    async with world.http.stream("POST", chat, json={"id": "chat-1", "messages": [says("M1", "u1")]}):
        await hold.reached.wait()
        body = {"id": "chat-1", "messages": [says("M1", "u1"), says("M2", "u2")]}
        async with world.http.stream("POST", chat, json=body):
            runs = (await world.http.get("/v1/runs")).json()["items"]
            await world.http.post(f"{chat}/chat-1/stop")
    for run in runs:
        await world.ended(run["runId"])
    before = (await world.http.get(f"{chat}/chat-1/messages")).json()
    await world.http.post(chat, json={"id": "chat-1", "messages": [*before, says("M3", "u3")]})
    after = (await world.http.get(f"{chat}/chat-1/messages")).json()

    assert len(runs) == 2
    users = [(each["id"], each["parts"][0]["text"]) for each in after if each["role"] == "user"]
    assert users == [("u1", "M1"), ("u2", "M2"), ("u3", "M3")]
    assert [each["id"] for each in before if each["role"] == "user"] == ["u1", "u2"]
    assert conversation_of(world.simulator.requests[-1])[-1] == ("user", "M2\nM3")


async def test_several_messages_are_passed_on_in_order_on_every_branch(world_of: WorldOf) -> None:
    world, hold, first = await held(world_of)
    with_file = [{"type": "text", "text": "M2"}, DOCUMENT]
    second, third = await cancelled(world, behind=hold, messages=[with_file, "M3"])
    await world.ended(first)

    fourth = await posted(world, "M4")
    page = (await world.http.get("/v1/sessions/chat-1")).json()["messages"]
    instead = await posted(world, "M5", forkFrom=fourth["runId"])
    of_branch = await shown(world)
    await posted(world, "M6", forkFrom=third)
    of_earlier = await shown(world)
    await posted(world, "M7", forkFrom=second)
    requests = [request.messages for request in world.simulator.requests]

    start = [("user", "M1"), ("assistant", "a0 b")]
    middle = [("user", "M2"), ("user", "M3")]
    assert [block["type"] for block in requests[1][-1]["content"]] == ["text", "document", "text", "text"]
    heard = [conversation_of(request) for request in world.simulator.requests]
    assert [each[:-1] for each in heard[1:]] == [start] * 4
    assert [each[-1][1] for each in heard[1:]] == ["M2\nM3\nM4", "M2\nM3\nM5", "M2\nM6", "M7"]
    assert of_branch == [*start, *middle, ("user", "M5"), ("assistant", "a2 b")]
    assert of_earlier == [*start, ("user", "M2"), ("user", "M6"), ("assistant", "a3 b")]
    assert instead["status"] == "succeeded"
    users = [each for each in page if each["type"] == "user_message"]
    assert [each["messageId"] for each in users] == [
        f"{run}/user" for run in (first, second, third, fourth["runId"])
    ]
    assert [len(each.get("attachments", [])) for each in users] == [0, 1, 0, 0]
    results = [each["runId"] for each in page if each["type"] == "result"]
    assert results == [first, second, third, fourth["runId"]]


async def test_what_a_client_shows_of_them_decides(world_of: WorldOf) -> None:
    world, hold, first = await held(world_of)
    await cancelled(world, behind=hold, messages=["M2"])
    await world.ended(first)
    start = [{"role": "user", "content": "M1"}, {"role": "assistant", "content": "a0 b"}]
    m2, m3 = ({"role": "user", "content": text} for text in ("M2", "M3"))

    async def answered(messages: list[Any], **fields: Any) -> str:
        body = {**a_request(stateKey="chat-1", **fields), "messages": messages}
        run_id = await world.start(body)
        await world.ended(run_id)
        return run_id

    with_it = await answered([*start, m2, m3])
    without_it = await answered([*start, m3], forkFrom=with_it)
    other = [{"role": "user", "content": "other"}, start[1], m3]
    refused = await world.start({**a_request(stateKey="chat-1", forkFrom=without_it), "messages": other})

    heard = [conversation_of(request)[-1] for request in world.simulator.requests]
    assert heard[1:] == [("user", "M2\nM3"), ("user", "M3")]
    assert (await world.ended(refused))["final"]["error"] == "invalid_request"


async def test_a_message_is_not_passed_on_once_it_is_deleted(world_of: WorldOf) -> None:
    world, hold, first = await held(world_of)
    second, _ = await cancelled(world, behind=hold, messages=["M2", "M3"])
    await world.ended(first)

    (await world.http.delete(f"/v1/runs/{second}")).raise_for_status()
    await posted(world, "M4")
    await posted(world, "M5")

    heard = [conversation_of(request)[-1] for request in world.simulator.requests]
    assert heard[1:] == [("user", "M3\nM4"), ("user", "M5")]
