"""Requests of AI SDK chats, converted to run requests."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.errors import Invalid
from app.http.ai_sdk.input import ChatRequest
from app.http.field_errors import field_errors
from app.requests.messages import ImagePart, Message, TextPart
from app.requests.run_request import GraphRunRequest
from tests import media
from tests.factories import not_none
from tests.media import b64

PIXEL = b64(media.PIXEL)
GRAPH = "claude_agents:assistant"


def a_message(content: str, message_id: str = "u1", role: str = "user") -> dict[str, Any]:
    return {"id": message_id, "role": role, "parts": [{"type": "text", "text": content}]}


def a_chat(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    return ChatRequest.model_validate({"id": "chat-1", "messages": list(messages), **fields})


def run_of(*messages: dict[str, Any], with_history: bool = True, **fields: Any) -> GraphRunRequest:
    posted = a_chat(*messages, **fields).chat_message(GRAPH)
    first_new = 0 if with_history else len(posted.posted) - 1
    return posted.build_request(first_new, with_history=with_history)


def texts_of(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


def refused(*messages: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(Invalid) as raised:
        run_of(*messages)
    (error,) = raised.value.errors
    return error.field, error.message


def test_a_chat_is_a_conversation_and_its_body_may_have_options_of_a_run() -> None:
    run = run_of(a_message("hi"), model="haiku", limits={"maxTurns": 2}, onConflict="reject")

    assert (run.graph_id, run.state_key, run.model) == (GRAPH, "chat-1", "haiku")
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
        ("http://example.org/x.png", "data: URL"),
        (None, "data: URL"),
        (f"data:application/pdf;base64,{PIXEL}", "not a PDF"),
        ("data:image/png;base64,???", "base64"),
        ("data:image/png;base64,", "empty"),
    ],
)
def test_other_files_are_rejected_with_their_path(url: str | None, expected: str) -> None:
    file = {"type": "file", "mediaType": "image/png", "url": url}

    field, message = refused({"id": "u", "role": "user", "parts": [{"type": "text", "text": "x"}, file]})

    assert field == "messages.0.parts.1.url"
    assert expected in message


def test_earlier_messages_are_read_leniently_and_unanswered_ones_with_the_new_one() -> None:
    away = {"type": "file", "mediaType": "image/png", "url": "https://example.org/x"}
    file = {"id": "u1", "role": "user", "parts": [away, {"type": "text", "text": "Look."}]}
    note = "[An attachment of type file that cannot be read here.]"
    posted = a_chat(file, a_message("Sorry.", "a1", "assistant"), a_message("go on", "u2"))

    history = posted.chat_message(GRAPH).build_request(0, with_history=True)
    unanswered = posted.chat_message(GRAPH).build_request(0, with_history=False)

    assert texts_of(history.messages) == [
        ("user", f"{note}\n\nLook."),
        ("assistant", "Sorry."),
        ("user", "go on"),
    ]
    assert texts_of(unanswered.messages) == [("user", f"{note}\n\nLook.\n\ngo on")]
    assert refused(file)[0] == "messages.0.parts.0.url"


@pytest.mark.parametrize(
    ("trigger", "message_id", "view"),
    [
        ("submit-message", None, None),
        ("regenerate-message", None, ["u1", "a1", "u2"]),
        ("regenerate-message", "a2", ["u1", "a1", "u2"]),
        ("regenerate-message", "u2", ["u1", "a1", "u2"]),
        ("regenerate-message", "a1", ["u1"]),
        ("regenerate-message", "u1", ["u1"]),
        ("regenerate-message", "unknown", ["u1", "a1", "u2"]),
    ],
)
def test_an_answer_that_is_regenerated_is_that_of_the_message_before_it(
    trigger: str, message_id: str | None, view: list[str] | None
) -> None:
    turns = [
        a_message(each, each, "user" if each[0] == "u" else "assistant") for each in ("u1", "a1", "u2", "a2")
    ]
    posted = a_chat(*turns, trigger=trigger, messageId=message_id)

    if view is None:
        with pytest.raises(Invalid):
            posted.chat_message(GRAPH)
    else:
        found = posted.chat_message(GRAPH)
        assert (found.posted, found.message_id, found.is_whole_view) == (view, view[-1], True)


def test_the_last_message_is_a_users_with_content() -> None:
    assert refused(a_message("hi"), a_message("ho", "a", "assistant"))[0] == "messages.1"
    assert refused(a_message("hi"), {"id": "u2", "role": "user", "parts": []})[0] == "messages.1.parts"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": "not/a key"}, "id"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"message": a_message("ho")}, "messages"),
        ({"messages": None, "message": {"id": "u"}}, "message.role"),
        ({"trigger": "resume-stream"}, "trigger"),
        ({"limits": {"maxRetries": 1}}, "limits.maxRetries"),
    ],
)
def test_values_that_no_chat_sends_are_rejected(change: dict[str, Any], field: str) -> None:
    body = {"id": "c", "messages": [a_message("hi")], **change}
    body = {name: value for name, value in body.items() if name != "messages" or value is not None}

    with pytest.raises(ValidationError) as raised:
        ChatRequest.model_validate(body)

    details: list[Any] = [{**error, "loc": ("body", *error["loc"])} for error in raised.value.errors()]
    assert field in {error.field for error in field_errors(details, body)}


@pytest.mark.parametrize(
    "added",
    [
        {"tools": {}, "metadata": {"custom": {}}, "id": "__LOCALID_a1B2c3D"},
        {"system": "Be brief.", "callSettings": {"temperature": 1}, "config": {}},
        {"model": "", "webSearch": False, "requestMetadata": None},
    ],
    ids=["useChatRuntime", "AssistantChatTransport", "a template"],
)
def test_what_clients_add_by_themselves_is_ignored(added: dict[str, Any]) -> None:
    plain = run_of(a_message("hi"))

    request = run_of(a_message("hi"), **added)

    assert request == plain.model_copy(update={"state_key": added.get("id", "chat-1")})


def test_a_transport_may_send_the_last_message_only() -> None:
    chat = ChatRequest.model_validate({"id": "c", "message": a_message("hi"), "trigger": "submit-message"})

    assert not chat.is_whole_view
    request = chat.chat_message(GRAPH).build_request(0, with_history=True)
    assert texts_of(request.messages) == [("user", "hi")]


def a_decided_message(message_id: str, *states: str) -> dict[str, Any]:
    parts = [
        {"type": "tool-x", "state": state, "approval": {"id": f"{message_id}-{state}", "approved": True}}
        for state in states
    ]
    return {"id": message_id, "role": "assistant", "parts": parts}


def test_decisions_are_recognized_by_their_state_and_count_once() -> None:
    responded = ["approval-responded"] * 1_000
    requested = a_decided_message("a1", "output-available", *responded, "approval-requested")

    message = not_none(a_chat(a_message("hi"), requested).decided_message)

    assert [decision.request_id for decision in message.decisions] == ["a1-approval-responded"]


def test_decisions_of_an_earlier_message_count_if_it_is_named() -> None:
    history = (a_message("hi"), a_decided_message("a1", "approval-responded"), a_message("ho", "u2"))

    named = not_none(a_chat(*history, messageId="a1").decided_message)

    assert named.id == "a1"
    assert a_chat(*history).decided_message is None
    assert a_chat(*history, messageId="u2").decided_message is None


def test_an_approval_in_a_message_shows_that_the_client_knows_them() -> None:
    denied = {"id": "a", "role": "assistant", "parts": [{"type": "tool-x", "state": "output-denied"}]}
    done = {"id": "a", "role": "assistant", "parts": [{"type": "tool-x", "state": "output-available"}]}
    approved = a_decided_message("a", "output-available")

    assert [
        a_chat(a_message("hi"), message, a_message("ho", "u2")).shows_approvals
        for message in (denied, approved, done)
    ] == [True, True, False]
