"""The messages of a CLI that wait to be processed."""

import sys

import pytest
from claude_agent_sdk import AssistantMessage, Message, StreamEvent, TextBlock

from app.executors.claude_agent.process.message_buffer import BufferFull, MessageBuffer


def a_piece(text: str) -> StreamEvent:
    delta = {"type": "text_delta", "text": text}
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    return StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=None)


async def responded(buffer: MessageBuffer) -> list[Message]:
    return [message async for message in buffer.messages()]


async def test_messages_are_read_in_their_order_up_to_the_end() -> None:
    buffer, sent = MessageBuffer(), [a_piece(str(number)) for number in range(200)]
    for message in sent:
        buffer.put(message)
    buffer.end()

    assert await responded(buffer) == sent


async def test_why_it_ended_is_told_after_what_was_said() -> None:
    buffer = MessageBuffer()
    buffer.put(a_piece("last words"))
    buffer.end(ValueError("broken"))
    reading = buffer.messages()

    assert await anext(reading) == a_piece("last words")
    with pytest.raises(ValueError, match="broken"):
        await anext(reading)


async def test_what_is_read_makes_room() -> None:
    buffer, text = MessageBuffer(max_bytes=100_000), "x" * 30_000
    for _ in range(10):
        assert [buffer.put(a_piece(text)) for _ in range(3)] == [True, True, True]
        reading = buffer.messages()
        for _ in range(3):
            await anext(reading)


async def test_after_more_than_may_wait_nothing_is_taken_and_that_is_how_it_ends() -> None:
    buffer, text = MessageBuffer(max_bytes=100_000), "x" * 30_000
    taken = [buffer.put(a_piece(text)) for _ in range(4)]
    reading = buffer.messages()
    await anext(reading)
    taken.append(buffer.put(a_piece("")))
    buffer.end()

    assert taken == [True, True, True, False, False]
    assert [await anext(reading) for _ in range(2)] == [a_piece(text)] * 2
    with pytest.raises(BufferFull):
        await anext(reading)


def test_one_message_of_any_size_is_taken_when_nothing_waits() -> None:
    buffer = MessageBuffer(max_bytes=1000)

    assert buffer.put(a_piece("x" * 5000))
    assert not buffer.put(a_piece("x"))


@pytest.mark.parametrize(
    "message",
    [
        a_piece("\N{GRINNING FACE}" * 1000),
        AssistantMessage(content=[TextBlock(text="\N{GRINNING FACE}" * 1000)], model="m"),
    ],
    ids=["piece", "whole"],
)
def test_what_counts_is_the_memory_that_text_takes(message: Message) -> None:
    buffer = MessageBuffer(max_bytes=3 * sys.getsizeof("\N{GRINNING FACE}" * 1000))

    assert [buffer.put(message) for _ in range(3)] == [True, True, False]


def test_many_small_messages_count_as_well() -> None:
    buffer = MessageBuffer(max_bytes=100_000)

    assert not all(buffer.put(a_piece("")) for _ in range(200))
