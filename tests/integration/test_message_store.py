"""Conversations of the Messages API on PostgreSQL."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.conversations.neutral_transcript import api_messages
from app.conversations.transcript_store import TranscriptStore
from app.executors.api_format.prompt import RESUME_PROMPT
from app.executors.api_format.stream import DeltaMapper
from app.executors.messages_api.message import MessageFold
from app.executors.messages_api.transcript import RunTranscript
from app.executors.port import ExecutionFailed, RunPlan
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.requests.messages import Message
from app.simulator import wire
from app.simulator.script import Block, Reply, Text, Thinking, ToolUse
from tests.factories import a_conversation, a_plan
from tests.patience import PATIENCE_S

HI = Message.of(role="user", content="hi")
AGAIN = Message.of(role="user", content="again")


@pytest.fixture
def plan() -> RunPlan:
    """The plan of the first run of a conversation."""
    planned = a_plan()
    return replace(planned, conversation=a_conversation(planned.run.account_id, "k"))


def next_run(plan: RunPlan, name: str = "r2") -> RunPlan:
    return replace(plan, run=RunKey(plan.run.account_id, RunId(name)))


def a_message(*blocks: Block, until: int | None = None) -> MessageFold:
    message = MessageFold(DeltaMapper(show_thinking=False, tool_id_of=str, hidden_tool=""))
    for event in wire.events(Reply(blocks), model="m")[:until]:
        list(message.feed(event))
    return message


async def transcript_of(database: Database, plan: RunPlan, *messages: Message) -> RunTranscript:
    transcript = RunTranscript(TranscriptStore(database), plan)
    await transcript.load(messages)
    return transcript


async def stored(database: Database, plan: RunPlan) -> list[dict[str, Any]]:
    assert plan.conversation is not None
    return api_messages(await TranscriptStore(database).entries(plan.conversation.transcript))[0]


async def test_the_next_run_sends_what_the_one_before_sent_byte_for_byte(
    database: Database, plan: RunPlan
) -> None:
    first = await transcript_of(database, plan, HI)
    message = a_message(
        Thinking("hm"), Text("So."), ToolUse("look", {"z": 1, "a": {"y": 2.0, "x": "\u2028"}}, "t1")
    )
    first.add_message(message, model="m")
    first.add_user([{"type": "tool_result", "tool_use_id": "t1", "content": [], "is_error": False}])
    first.add_message(a_message(Text("Done.")), model="m")
    await first.close(asyncio.Event())

    second = await transcript_of(database, next_run(plan), Message.of(role="user", content="and now?"))

    assert str(second.messages[:-1]) == str(first.messages)
    assert second.messages[-1]["content"] == [{"type": "text", "text": "and now?"}]
    await second.close(asyncio.Event())


async def test_a_history_posted_first_is_kept_and_one_that_contradicts_is_refused(
    database: Database, plan: RunPlan
) -> None:
    history = [
        HI,
        Message.of(role="assistant", content="Hello!"),
        Message.of(role="user", content="I am Ada"),
    ]
    first = await transcript_of(database, plan, *history)
    first.add_message(a_message(Text("Welcome.")), model="m")
    await first.close(asyncio.Event())

    later = [*history, Message.of(role="assistant", content="Welcome."), AGAIN]
    second = await transcript_of(database, next_run(plan), *later)
    assert [message["role"] for message in second.messages] == ["user", "assistant"] * 2 + ["user"]
    await second.close(asyncio.Event())
    with pytest.raises(ExecutionFailed):
        await transcript_of(
            database, next_run(plan, "r3"), HI, Message.of(role="assistant", content="No."), AGAIN
        )


async def test_a_run_that_is_resumed_goes_on_where_it_stopped(database: Database, plan: RunPlan) -> None:
    first = await transcript_of(database, plan, HI)
    first.add_message(a_message(ToolUse("look", {}, "t1")), model="m")
    await first.close(asyncio.Event())

    again = await transcript_of(database, plan, HI)

    assert [message["role"] for message in again.messages] == ["user", "assistant", "user", "user"]
    assert again.messages[2]["content"][0]["tool_use_id"] == "t1"
    assert again.messages[3]["content"][0]["text"] == RESUME_PROMPT
    await again.close(asyncio.Event())


async def test_a_line_that_cannot_be_stored_keeps_no_other_from_being_stored(
    database: Database, plan: RunPlan
) -> None:
    transcript = await transcript_of(database, plan, HI)
    transcript.add_user([{"type": "tool_result", "tool_use_id": "t1", "content": float("nan")}])
    transcript.add_message(a_message(Text("hello")), model="m")
    async with asyncio.timeout(PATIENCE_S):
        await transcript.close(asyncio.Event())

    assert [message["role"] for message in await stored(database, plan)] == ["user", "assistant"]
