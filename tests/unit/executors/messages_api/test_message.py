import re
from collections.abc import Sequence
from typing import Any

import pytest

from app.events import OutputEvent, TextDelta, ToolCallStart
from app.executors.api_format.stream import DeltaMapper
from app.executors.messages_api.message import MessageFold, MessageMalformed
from app.simulator import wire
from app.simulator.script import Block, Reply, Text, Thinking, ToolUse

DELTAS = DeltaMapper(show_thinking=True, tool_id_of=str, hidden_tool="StructuredOutput")


def folded(*blocks: Block, until: int | None = None, **reply: Any) -> tuple[MessageFold, list[OutputEvent]]:
    """What arrives of a message with these blocks, up to an event."""
    message = MessageFold(DELTAS)
    sent = wire.events(Reply(blocks, message_id="msg_1", **reply), model="m")
    return message, [ours for event in sent[:until] for ours in message.feed(event)]


def test_a_message_is_sent_back_as_it_came() -> None:
    blocks: list[Block] = [
        Thinking("hm hm", "c2ln"),
        Text("Let me look."),
        ToolUse("look", {"at": [1, 2.0]}, "t1"),
    ]
    message, events = folded(*blocks)

    assert message.content() == [
        {"type": "thinking", "thinking": "hm hm", "signature": "c2ln"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": [1, 2.0]}},
    ]
    assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 20)
    kinds = [event.type for event in events if not isinstance(event, TextDelta)]
    assert kinds[-2:] == ["status", "tool_call_start"]
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == "Let me look."


# message_start, ping, then per block: start, deltas, stop.
@pytest.mark.parametrize(
    ("blocks", "until", "kept"),
    [
        ([Text("one two")], 4, [{"type": "text", "text": "one"}]),
        ([Text("one two")], 3, []),
        ([Thinking("hm"), Text("one")], 4, []),
        ([Text("one"), ToolUse("look", {}, "t1")], 7, [{"type": "text", "text": "one"}]),
    ],
)
def test_of_a_message_that_was_cut_off_only_what_the_api_accepts_is_sent_back(
    blocks: Sequence[Block], until: int, kept: list[Any]
) -> None:
    message, _ = folded(*blocks, until=until)

    assert (message.content(), message.stop_reason, message.tool_uses) == (kept, None, [])


@pytest.mark.parametrize("raw", ["{", "[1]", '"text"', "[" * 100_000])
def test_arguments_that_are_no_object_are_shown_and_sent_back_as_none(raw: str) -> None:
    message, events = folded(ToolUse("look", id="t1", raw=raw))

    assert message.content()[0]["input"] == {}
    assert not isinstance(message.tool_uses[0].args, dict)
    assert isinstance(events[-1], ToolCallStart)
    assert events[-1].args == {}


def test_the_call_that_is_the_structured_answer_is_not_shown() -> None:
    message, events = folded(ToolUse("StructuredOutput", {"n": 1}))

    assert (events, message.tool_uses[0].args) == ([], {"n": 1})


def test_unstorable_text_is_replaced() -> None:
    message, events = folded(Text("a\0b"), ToolUse("look", {"\ud800": "\0"}, "t\0"))

    assert message.text == "a\ufffdb"
    assert message.content()[1]["input"] == {"\ufffd": "\ufffd"}
    assert "\0" not in str(events)


@pytest.mark.parametrize("call_id", ["t\0", "", "a b", "t" * 201, "used", "t\n", "\u0661"])
def test_an_id_of_a_call_that_the_api_would_not_accept_is_replaced(call_id: str) -> None:
    message = MessageFold(DELTAS, {"used"})
    calls = [ToolUse("look", id=call_id), ToolUse("look", id="fine"), ToolUse("look", id="fine")]
    events = [ours for event in wire.events(Reply(calls), model="m") for ours in message.feed(event)]

    ids = [use.call_id for use in message.tool_uses]
    assert ids == [block["id"] for block in message.content()]
    assert ids == [event.tool_call_id for event in events if isinstance(event, ToolCallStart)]
    assert ids[1] == "fine"
    assert len({*ids, "used"}) == 4
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,200}", each) for each in ids)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "message_start", "message": None},
        {"type": "content_block_start", "index": 0, "content_block": "text"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "message_delta"},
        # The block with the index 0 is open.
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": [], "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_stop", "index": 1},
    ],
)
def test_events_that_are_not_the_apis_are_refused(event: dict[str, Any]) -> None:
    message, _ = folded(Text("one"), until=3)

    with pytest.raises(MessageMalformed):
        list(message.feed(event))


def with_block(block: dict[str, Any], delta: dict[str, Any]) -> tuple[MessageFold, list[Any]]:
    """A message of one block that comes in two parts, and the events of it."""
    message, _ = folded(until=1)
    parts = (
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
    )
    return message, [event for part in parts for event in message.feed(part)]


def test_a_summary_is_sent_back_as_it_came() -> None:
    summary = {"type": "compaction", "content": None, "signature": "c2ln"}
    delta = {"type": "compaction_delta", "content": "They met.", "encrypted_content": "ZW5j"}
    message, events = with_block(summary, delta)

    assert events == message.content() == []
    assert [message.summary] == [{**summary, "content": "They met.", "encrypted_content": "ZW5j"}]
    # Known before the message has ended, because its receipt may be written before that was read.
    assert message.is_summary
    assert not folded(Text("They met."))[0].is_summary


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_a_message_without_a_beginning_is_refused(number: int) -> None:
    # The gateway has recorded no message: nothing of one is shown.
    with pytest.raises(MessageMalformed):
        list(MessageFold(DELTAS).feed(wire.events(Reply([Text("one")]), model="m")[number]))


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("until", [5, 6])
def test_nothing_is_added_to_what_is_complete(until: int, number: int) -> None:
    sent = wire.events(Reply([ToolUse("look", {"a": 1}, "t1")]), model="m")
    message, _ = folded(ToolUse("look", {"a": 1}, "t1"), until=until)

    with pytest.raises(MessageMalformed):
        list(message.feed(sent[number]))
    assert [use.args for use in message.tool_uses] == [{"a": 1}]


def test_a_message_that_begins_twice_is_one_message_with_the_higher_numbers() -> None:
    message, _ = folded(Text("one"), until=4, usage={"input_tokens": 7, "output_tokens": 9})
    again = {"id": "msg_1", "usage": {"input_tokens": 8, "output_tokens": 1}}
    second = {"id": "msg_2", "usage": {"input_tokens": 900}}

    for beginning in (again, second):
        assert list(message.feed({"type": "message_start", "message": beginning})) == []
    assert (message.message_id, message.usage.input_tokens, message.usage.output_tokens) == ("msg_1", 8, 9)


def test_text_that_comes_with_the_beginning_of_its_block_is_shown() -> None:
    message, events = with_block({"type": "text", "text": "one "}, {"type": "text_delta", "text": "two"})

    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["one ", "two"]
    assert (message.text, message.content()[0]["text"]) == ("one two", "one two")


def test_the_arguments_of_the_providers_own_tools_are_sent_back() -> None:
    block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    message, _ = with_block(block, {"type": "input_json_delta", "partial_json": '{"query": "x"}'})

    assert message.content() == [{**block, "input": {"query": "x"}}]
    assert message.tool_uses == []


@pytest.mark.parametrize(
    ("until", "stop_reason", "summary"),
    [(None, "compaction", True), (None, "end_turn", False), (3, "end_turn", True)],
)
def test_a_summary_is_known_by_its_end_or_else_by_its_block(
    until: int | None, stop_reason: str, *, summary: bool
) -> None:
    message = MessageFold(DELTAS)
    for event in wire.events(Reply([Text("one")], stop_reason=stop_reason), model="m")[:until]:
        changed = {"content_block": {"type": "compaction"}} if "content_block" in event else {}
        list(message.feed({**event, **changed}))

    assert message.is_summary is summary
