from typing import Any

import pytest

from app.conversations.records import TranscriptEntry
from app.conversations.sdk_transcript import messages_of, resumable_lines

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


NOTE = {"type": "text", "text": "[This is left out here: it is too long.]"}
IMAGE = {"type": "image", "source": {"type": "base64", "data": ""}}
IMAGE_NOTE = {"type": "text", "text": "[An attachment of type image is left out here.]"}


def the_model_writes(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}, **more}


def the_provider_refuses(text: str, error: str = "invalid_request") -> dict[str, Any]:
    return the_model_writes(text, isApiErrorMessage=True, error=error)


def the_user_writes(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def resumed(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    entries = [TranscriptEntry(line, "r1") for line in lines]
    return resumable_lines(entries, concerns_attachments=lambda reason: "image" in reason)


def test_a_cli_goes_on_without_what_was_too_long() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "long"}
    overloaded = the_provider_refuses("Prompt is too long", error="rate_limit")
    queued = {"type": "queued_command", "prompt": "and this"}
    lines = [
        the_user_writes("hi"),
        the_model_writes("So."),
        # What it is asked next fails twice, for different reasons.
        the_user_writes([result], uuid="u1"),
        {"type": "attachment", "attachment": queued},
        overloaded,
        the_user_writes("a summary", isCompactSummary=True),
        the_user_writes("a note", isMeta=True),
        the_provider_refuses("Prompt is too long"),
        the_user_writes("short"),
        overloaded,
    ]

    found = resumed(*lines)

    assert found[2] == the_user_writes([{**result, "content": [NOTE]}], uuid="u1")
    assert found[3] == {"type": "attachment", "attachment": {**queued, "prompt": [NOTE]}}
    assert [*found[:2], *found[4:]] == [*lines[:2], *lines[4:]]


def test_it_goes_on_without_attachments_that_may_be_why_a_turn_failed() -> None:
    sent = the_user_writes([IMAGE])
    refusal = the_provider_refuses("too many images")
    left_out = the_user_writes([IMAGE_NOTE])
    answer = the_model_writes("So.")
    other = the_provider_refuses("No such model")

    assert resumed(sent, answer, sent, refusal) == [left_out, answer, left_out, refusal]
    assert resumed(sent, refusal, sent, answer) == [left_out, refusal, sent, answer]
    # The CLI has left it out itself and called the model again.
    assert resumed(sent, refusal, answer, sent) == [sent, refusal, answer, sent]
    assert resumed(sent, other, sent) == [sent, other, sent]
