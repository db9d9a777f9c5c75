"""Requests of AI SDK chats, converted to run requests."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.errors import Invalid
from app.http.ai_sdk.input import ChatRequest
from app.requests import GraphRunRequest, ImagePart, Message, TextPart

PIXEL = "iVBORw0KGgo="
GRAPH = "claude_agents:assistant"


def a_message(content: str, message_id: str = "u1", role: str = "user") -> dict[str, Any]:
    return {"id": message_id, "role": role, "parts": [{"type": "text", "text": content}]}


def a_chat(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    return ChatRequest.model_validate({"id": "chat-1", "messages": list(messages), **fields})


def run_of(*messages: dict[str, Any], with_history: bool = True, **fields: Any) -> GraphRunRequest:
    return a_chat(*messages, **fields).build_request(GRAPH, "r-1", with_history=with_history)


def texts_of(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


def refused(*messages: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(Invalid) as raised:
        run_of(*messages)
    (error,) = raised.value.errors
    return error.field, error.message


def test_a_chat_is_a_conversation_and_its_body_may_have_options_of_a_run() -> None:
    run = run_of(a_message("hi"), model="haiku", limits={"maxTurns": 2}, onConflict="reject")

    assert (run.graph_id, run.run_id, run.state_key, run.model) == (GRAPH, "r-1", "chat-1", "haiku")
    assert (run.limits.max_turns, run.on_conflict) == (2, "reject")
    assert texts_of(run.messages) == [("user", "hi")]


def test_only_texts_of_the_history_are_sent() -> None:
    answer = {
        "id": "a1",
        "role": "assistant",
        "metadata": {"any": "thing"},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm", "state": "done"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool-x", "toolCallId": "t", "state": "output-available", "input": {}, "output": 1},
            {"type": "data-permission", "id": "p", "data": {}},
            {"type": "text", "text": "It is 5."},
        ],
    }
    empty = {"id": "a2", "role": "assistant", "parts": [{"type": "step-start"}]}
    system = a_message("Be brief.", "s", "system")
    messages = [
        system,
        a_message("the time"),
        answer,
        a_message("again", "u2"),
        empty,
        a_message("and now", "u3"),
    ]

    assert texts_of(run_of(*messages).messages) == [
        ("system", "Be brief."),
        ("user", "the time"),
        ("assistant", "Let me see.\n\nIt is 5."),
        ("user", "again"),
        ("user", "and now"),
    ]
    assert texts_of(run_of(*messages, with_history=False).messages) == [
        ("system", "Be brief."),
        ("user", "and now"),
    ]


@pytest.mark.parametrize("media_type", ["image/png", "image"])
def test_images_come_in_data_urls(media_type: str) -> None:
    file = {"type": "file", "mediaType": media_type, "url": f"data:image/png;base64,{PIXEL}"}
    message = {"id": "u", "role": "user", "parts": [file, {"type": "text", "text": "What is it?"}]}

    (requested,) = run_of(message).messages

    assert requested.parts == [
        ImagePart.of(type="image", media_type="image/png", data=PIXEL),
        TextPart(type="text", text="What is it?"),
    ]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/x.png", "data: URL"),
        (None, "data: URL"),
        (f"data:application/pdf;base64,{PIXEL}", "image/png"),
        ("data:image/png;base64,???", "base64"),
        ("data:image/png;base64,", "base64"),
    ],
)
def test_other_files_are_rejected_with_their_path(url: str | None, expected: str) -> None:
    file = {"type": "file", "mediaType": "image/png", "url": url}

    field, message = refused({"id": "u", "role": "user", "parts": [{"type": "text", "text": "x"}, file]})

    assert field == "messages.0.parts.1.url"
    assert expected in message


def test_a_file_of_an_earlier_message_is_validated_only_with_history() -> None:
    file = {"id": "u1", "role": "user", "parts": [{"type": "file", "url": "https://example.org/x"}]}

    assert texts_of(run_of(file, a_message("go on", "u2"), with_history=False).messages) == [
        ("user", "go on")
    ]
    assert refused(file, a_message("go on", "u2"))[0] == "messages.0.parts.0.url"


def test_the_last_message_is_a_users_with_content() -> None:
    assert refused(a_message("hi"), a_message("ho", "a", "assistant"))[0] == "messages.1"
    assert refused(a_message("hi"), {"id": "u2", "role": "user", "parts": []})[0] == "messages.1.parts"


@pytest.mark.parametrize(
    "change", [{"id": "not/a key"}, {"messages": []}, {"trigger": "resume-stream"}, {"temperature": 1}]
)
def test_fields_that_no_chat_sends_are_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ChatRequest.model_validate({"id": "c", "messages": [a_message("hi")], **change})


def a_decided_message(message_id: str, *states: str) -> dict[str, Any]:
    parts = [
        {"type": "tool-x", "state": state, "approval": {"id": f"{message_id}-{state}", "approved": True}}
        for state in states
    ]
    return {"id": message_id, "role": "assistant", "parts": parts}


def test_decisions_are_recognized_by_their_state() -> None:
    requested = a_decided_message("a1", "output-available", "approval-responded", "approval-requested")

    message = a_chat(a_message("hi"), requested).decided_message

    assert message is not None
    assert [decision.request_id for decision in message.decisions] == ["a1-approval-responded"]


def test_decisions_of_an_earlier_message_count_if_it_is_named() -> None:
    history = (a_message("hi"), a_decided_message("a1", "approval-responded"), a_message("ho", "u2"))

    named = a_chat(*history, messageId="a1").decided_message

    assert named is not None
    assert named.id == "a1"
    assert a_chat(*history).decided_message is None
    assert a_chat(*history, messageId="u2").decided_message is None
