"""Chats take an answer off the screen before they post, and a refusal does not bring it back."""

import asyncio
from typing import Any

from app.simulator.script import Hold, Reply, Text
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import WorldOf
from tests.e2e.test_a_chat_of_the_ai_sdk import (
    CHAT,
    a_post,
    conversation_of,
    message_id_of,
    says,
    text_in,
)


async def test_what_a_refused_post_of_a_chat_has_taken_away_is_not_heard(world_of: WorldOf) -> None:
    answers = iter(range(5))
    world = await world_of(lambda _: Reply([Text(f"Answer {next(answers)}.")]), agent=MESSAGES)

    async def post(*messages: dict[str, Any]) -> dict[str, Any]:
        answer = await world.http.post(CHAT, json=a_post(*messages))
        return says(text_in(answer), message_id_of(answer), "assistant")

    hello = [says("hi", "u1"), await post(says("hi", "u1"))]
    await post(*hello, says("BLUE", "u2"))
    # The answer is to be regenerated; the message is edited, and another one is refused; so is the first one.
    await post(*hello, says("BLUE", "u2"), says("next", "u3"))
    await post(*hello, says("RED", "u2"), says("refused", "u4"), says("next", "u5"))
    await post(says("hey", "u1"), says("again", "u6"))

    heard = [conversation_of(request) for request in world.simulator.requests]
    first = [("user", "hi"), ("assistant", "Answer 0.")]
    assert heard[2:] == [
        [*first, ("user", "BLUE\nnext")],
        [*first, ("user", "RED\nrefused\nnext")],
        [("user", "hey"), ("user", "again")],
    ]


async def test_an_answer_that_is_not_shown_yet_is_heard(world_of: WorldOf) -> None:
    hold = Hold(index=5)
    replies = iter([Reply([Text("a b c")], hold=hold), Reply([Text("On.")])])
    world = await world_of(lambda _: next(replies), agent=MESSAGES)
    view = [says("hi", "u1")]

    async with world.http.stream("POST", CHAT, json=a_post(*view)):
        await hold.reached.wait()
        queued = asyncio.create_task(world.http.post(CHAT, json=a_post(*view, says("now", "u2"))))
        await world.accepted(runs=2)
        hold.until.set()
        assert text_in(await queued) == "On."

    heard = conversation_of(world.simulator.requests[-1])
    assert heard == [("user", "hi"), ("assistant", "a b c"), ("user", "now")]
