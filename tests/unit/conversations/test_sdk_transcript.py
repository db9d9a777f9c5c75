from typing import Any

import pytest

from app.conversations.records import TranscriptEntry
from app.conversations.sdk_transcript import last_entry_of, messages_of

USER_LINE = {"type": "user", "uuid": "u1", "message": {"content": "hello"}}


@pytest.mark.parametrize(
    "line",
    [
        {"type": "user"},
        {"type": "user", "message": 5},
        {"type": "user", "message": {"content": {"a": 1}}},
        {"type": "user", "message": {"content": [5, {"type": "text", "text": 5}, {"type": "text"}]}},
        {"type": "assistant"},
        {"type": "assistant", "message": {"content": None}},
        {"type": "assistant", "message": {"id": 5, "content": [5, {"type": "tool_use", "id": 5}, {}]}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": None}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result"}]}},
        {"type": "attachment", "attachment": 5},
        {"type": ["user"]},
        {"type": "assistant", "uuid": 5, "timestamp": 5, "message": {"content": []}},
        {},
    ],
)
def test_lines_of_any_shape_do_not_prevent_reading_the_others(line: dict[str, Any]) -> None:
    entries = [TranscriptEntry(USER_LINE, "r1"), TranscriptEntry(line, "r1")]

    shown = messages_of(entries, tool_id_of=str)

    assert [message.content for message in shown] == ["hello"]
    assert last_entry_of(entries, "r1") == "u1"


def test_a_users_text_may_begin_like_the_clis_own() -> None:
    text = "[Request interrupted by user] is what it said"
    note = "[Request interrupted by user for tool use]"
    lines = [{"type": "user", "message": {"content": content}} for content in (text, note)]

    shown = messages_of([TranscriptEntry(line, "r1") for line in lines], tool_id_of=str)

    assert [message.content for message in shown] == [text]


def test_messages_to_a_running_agent_are_part_of_the_history() -> None:
    """The CLI writes them as attachments, their content either a text or blocks."""
    sent = [{"type": "text", "text": "in blocks"}]
    lines = [
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": prompt}}
        for prompt in ("as text", sent)
    ]

    messages = messages_of([TranscriptEntry(line, "r1") for line in lines], tool_id_of=str)

    assert [(message.type, message.content) for message in messages] == [
        ("user_message", "as text"),
        ("user_message", "in blocks"),
    ]
