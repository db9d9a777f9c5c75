"""What a CLI has said and nobody has read yet."""

import sys

import pytest
from claude_agent_sdk import AssistantMessage, Message, StreamEvent, TextBlock

from app.executors.claude_agent.inbox import CliFailed, Inbox


def a_piece(text: str) -> StreamEvent:
    delta = {"type": "text_delta", "text": text}
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    return StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=None)


async def heard(inbox: Inbox) -> list[Message]:
    return [message async for message in inbox.messages()]


async def test_messages_are_read_in_their_order_up_to_the_end() -> None:
    inbox, said = Inbox(), [a_piece(str(number)) for number in range(200)]
    for message in said:
        inbox.put(message)
    inbox.end()

    assert await heard(inbox) == said


async def test_why_it_ended_is_told_after_what_was_said() -> None:
    inbox = Inbox()
    inbox.put(a_piece("last words"))
    inbox.end(ValueError("broken"))
    reading = inbox.messages()

    assert await anext(reading) == a_piece("last words")
    with pytest.raises(CliFailed, match="ValueError: broken"):
        await anext(reading)


async def test_what_is_read_makes_room() -> None:
    inbox, text = Inbox(max_bytes=100_000), "x" * 30_000
    for _ in range(10):
        assert [inbox.put(a_piece(text)) for _ in range(3)] == [True, True, True]
        reading = inbox.messages()
        for _ in range(3):
            await anext(reading)


async def test_after_more_than_may_wait_nothing_is_taken_and_that_is_how_it_ends() -> None:
    inbox, text = Inbox(max_bytes=100_000), "x" * 30_000
    taken = [inbox.put(a_piece(text)) for _ in range(4)]
    reading = inbox.messages()
    await anext(reading)
    taken.append(inbox.put(a_piece("")))
    inbox.end()

    assert taken == [True, True, True, False, False]
    assert [await anext(reading) for _ in range(2)] == [a_piece(text)] * 2
    with pytest.raises(CliFailed, match="InboxFull"):
        await anext(reading)


def test_one_message_of_any_size_is_taken_when_nothing_waits() -> None:
    inbox = Inbox(max_bytes=1000)

    assert inbox.put(a_piece("x" * 5000))
    assert not inbox.put(a_piece("x"))


@pytest.mark.parametrize(
    "message",
    [
        a_piece("\N{GRINNING FACE}" * 1000),
        AssistantMessage(content=[TextBlock(text="\N{GRINNING FACE}" * 1000)], model="m"),
    ],
    ids=["piece", "whole"],
)
def test_what_counts_is_the_memory_that_text_takes(message: Message) -> None:
    inbox = Inbox(max_bytes=3 * sys.getsizeof("\N{GRINNING FACE}" * 1000))

    assert [inbox.put(message) for _ in range(3)] == [True, True, False]


def test_many_small_messages_count_as_well() -> None:
    inbox = Inbox(max_bytes=100_000)

    assert not all(inbox.put(a_piece("")) for _ in range(200))
