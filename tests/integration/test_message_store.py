"""Conversations of the Messages API on PostgreSQL."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from app.conversations.message_store import MessageStore
from app.conversations.neutral_transcript import api_messages
from app.executors.api_format.prompt import RESUME_PROMPT
from app.executors.api_format.stream import DeltaMapper
from app.executors.messages_api.message import MessageFold
from app.executors.messages_api.transcript import INTERRUPTED, RunTranscript
from app.executors.port import ExecutionFailed, RunPlan
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.requests.messages import Message
from app.simulator import wire
from app.simulator.script import Block, Compaction, Reply, Text, Thinking, ToolUse
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
    transcript = RunTranscript(MessageStore(database), plan)
    await transcript.load(messages)
    return transcript


async def stored(database: Database, plan: RunPlan) -> list[dict[str, Any]]:
    assert plan.conversation is not None
    return api_messages(await MessageStore(database).entries(plan.conversation.transcript))[0]


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
    await first.close()

    second = await transcript_of(database, next_run(plan), Message.of(role="user", content="and now?"))

    assert str(second.messages[:-1]) == str(first.messages)
    assert second.messages[-1]["content"] == [{"type": "text", "text": "and now?"}]
    await second.close()


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
    await first.close()

    later = [*history, Message.of(role="assistant", content="Welcome."), AGAIN]
    second = await transcript_of(database, next_run(plan), *later)
    assert [message["role"] for message in second.messages] == ["user", "assistant"] * 2 + ["user"]
    await second.close()
    with pytest.raises(ExecutionFailed):
        await transcript_of(
            database, next_run(plan, "r3"), HI, Message.of(role="assistant", content="No."), AGAIN
        )


async def test_a_long_history_is_stored_in_order(database: Database, plan: RunPlan) -> None:
    history = [
        Message.of(role="assistant" if number % 2 else "user", content=str(number)) for number in range(301)
    ]

    first = await transcript_of(database, plan, *history)
    await first.close()

    assert [message["content"][0]["text"] for message in await stored(database, plan)] == [
        str(number) for number in range(301)
    ]


async def test_a_run_that_is_resumed_goes_on_where_it_stopped(database: Database, plan: RunPlan) -> None:
    first = await transcript_of(database, plan, HI)
    first.add_message(a_message(ToolUse("look", {}, "t1")), model="m")
    await first.close()

    again = await transcript_of(database, plan, HI)

    assert [message["role"] for message in again.messages] == ["user", "assistant", "user", "user"]
    assert again.messages[2]["content"][0]["tool_use_id"] == "t1"
    assert again.messages[3]["content"][0]["text"] == RESUME_PROMPT
    await again.close()


@pytest.mark.parametrize(("is_stopped", "note"), [(True, [INTERRUPTED]), (False, [])])
async def test_an_interrupted_turn_leaves_what_can_be_sent_back(
    database: Database, plan: RunPlan, *, is_stopped: bool, note: list[str]
) -> None:
    transcript = await transcript_of(database, plan, HI)
    transcript.add_message(a_message(ToolUse("a", {}, "t1"), ToolUse("b", {}, "t2")), model="m")
    done = {"type": "tool_result", "tool_use_id": "t1", "content": [], "is_error": False}
    transcript.add_results([done], note=INTERRUPTED if is_stopped else None)
    await transcript.close()

    last = (await stored(database, plan))[-1]["content"]
    assert [block["tool_use_id"] for block in last if block["type"] == "tool_result"] == ["t1", "t2"]
    assert [block["text"] for block in last if block["type"] == "text"] == note


async def test_a_summary_replaces_what_was_before_but_for_the_open_question(
    database: Database, plan: RunPlan
) -> None:
    transcript = await transcript_of(database, plan, HI)
    transcript.add_message(a_message(ToolUse("a", {}, "t1")), model="m")
    transcript.add_user([{"type": "tool_result", "tool_use_id": "t1", "content": [], "is_error": False}])
    message = a_message(Compaction("They said hi."))
    assert message.summary is not None
    transcript.add_summary(message.summary, message, model="m")
    await transcript.close()

    assert await stored(database, plan) == transcript.messages
    kinds = [block["type"] for message in transcript.messages for block in message["content"]]
    assert kinds == ["compaction", "tool_use", "tool_result"]


async def test_a_fork_ends_where_it_was_made(database: Database, plan: RunPlan) -> None:
    transcript = await transcript_of(database, plan, HI)
    transcript.add_message(a_message(Text("one")), model="m")
    await transcript.close()
    store, conversation = MessageStore(database), plan.conversation
    assert conversation is not None
    first, _ = await store.entries(conversation.transcript)

    copy = await store.fork(conversation, first.line["uuid"])

    copied = await store.entries(replace(conversation, session_id=copy).transcript)
    assert [entry.line["message"] for entry in copied] == [first.line["message"]]
    assert copied[0].run_id == first.run_id


async def test_a_line_that_cannot_be_stored_keeps_no_other_from_being_stored(
    database: Database, plan: RunPlan
) -> None:
    transcript = await transcript_of(database, plan, HI)
    transcript.add_user([{"type": "tool_result", "tool_use_id": "t1", "content": float("nan")}])
    transcript.add_message(a_message(Text("hello")), model="m")
    async with asyncio.timeout(PATIENCE_S):
        await transcript.close()

    assert [message["role"] for message in await stored(database, plan)] == ["user", "assistant"]


async def test_a_conversation_goes_on_without_its_damaged_lines(database: Database, plan: RunPlan) -> None:
    first = await transcript_of(database, plan, HI)
    first.add_message(a_message(ToolUse("look", {}, "t1")), model="m")
    first.add_user([{"type": "tool_result", "tool_use_id": "t1", "content": [], "is_error": False}])
    first.add_message(a_message(Text("Done.")), model="m")
    await first.close()
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE session_entries SET entry = '7' WHERE entry::text LIKE '%tool_use\"%'"))

    second = await transcript_of(database, next_run(plan), AGAIN)

    assert [message["role"] for message in second.messages] == ["user", "assistant", "user"]
    assert second.messages[1]["content"] == [{"type": "text", "text": "Done."}]
    await second.close()
