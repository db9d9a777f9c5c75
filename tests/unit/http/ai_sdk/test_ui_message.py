"""Messages as chats post them: earlier ones are read leniently, the last one is not."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.errors import Invalid
from app.http.ai_sdk.input import ChatRequest
from app.http.ai_sdk.ui_message import MOST_ANSWERED
from app.requests.attachments import PART_CHARS

HI: dict[str, Any] = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
NEW: dict[str, Any] = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "go on"}]}

WRONG = {
    "text": 5,
    "state": ["done"],
    "filename": {},
    "mediaType": True,
    "url": 1,
    "approval": {"id": "p", "approved": "yes"},
    "toolCallId": 7,
    "errorText": [],
    "providerExecuted": "no",
}


def an_answer(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": "a1", "role": "assistant", "parts": list(parts)}


def a_chat(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    return ChatRequest.model_validate({"id": "c", "messages": list(messages), **fields})


def decided(call: int, **approval: Any) -> dict[str, Any]:
    approval = {"id": f"p-{call}", "approved": True, **approval}
    return {"type": "tool-x", "state": "approval-responded", "approval": approval}


def resulting(call: int) -> dict[str, Any]:
    return {"type": "tool-x", "toolCallId": f"c-{call}", "state": "output-available", "output": call}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_a_wrong_type_ends_no_chat(name: str) -> None:
    part = {"type": "text", "text": "Hello.", name: WRONG[name]}
    kept = {"type": "text", "text": "Hello."} | ({"text": None} if name == "text" else {})

    lenient = a_chat(HI, an_answer(part, {"type": "text", "text": "Well."}), NEW)

    assert lenient.messages == a_chat(HI, an_answer(kept, {"type": "text", "text": "Well."}), NEW).messages
    with pytest.raises(ValidationError, match=name):
        a_chat(HI, an_answer(part))
    with pytest.raises(ValidationError, match=name):
        a_chat(HI, {**NEW, "parts": [part]})


@pytest.mark.parametrize("part", [None, 5, {}, {"type": 5, "text": 5}])
def test_what_is_no_part_ends_no_chat(part: Any) -> None:
    answer = {"type": "text", "text": "Hello."}
    request = a_chat(HI, an_answer(part, answer), NEW).chat_message("messages:assistant")

    assert [each.text for each in request.build_request(0, with_history=True).messages] == [
        *("hi", "Hello.", "go on")
    ]
    with pytest.raises(ValidationError):
        a_chat(HI, {**NEW, "parts": [part]})


def test_a_long_reason_is_cut() -> None:
    chat = a_chat(HI, an_answer(decided(1, reason="x" * 5_000), decided(2, reason="")))

    assert chat.decided_message is not None
    assert [decision.message for decision in chat.decided_message.decisions] == ["x" * 4_000, None]


@pytest.mark.parametrize("part", [decided, resulting])
def test_a_message_answers_a_bounded_number_of_calls(part: Any) -> None:
    def answered(number: int) -> Any:
        chat = a_chat(HI, an_answer(*map(part, range(number))))
        return chat.decided_message or chat.answered_message

    assert answered(MOST_ANSWERED) is not None
    with pytest.raises(Invalid) as raised:
        answered(MOST_ANSWERED + 1)
    assert raised.value.errors[0].field == "messages.1.parts"


def test_an_answer_that_is_regenerated_is_not_continued() -> None:
    for part in (decided(1), resulting(1)):
        chat = a_chat(HI, an_answer(part), trigger="regenerate-message", messageId="a1")
        assert (chat.decided_message, chat.answered_message) == (None, None)
        assert chat.chat_message("claude_agents:assistant").posted == ["u1"]


@pytest.mark.parametrize(
    "name", ["message", "messageId", "trigger", "limits", "onConflict", "files", "model", "responseFormat"]
)
def test_null_is_no_choice(name: str) -> None:
    chat = a_chat(HI, **{name: None})

    assert chat == a_chat(HI)
    assert not chat.is_whole_view


def test_the_parts_of_a_message_count_beside_their_characters() -> None:
    many = {**HI, "parts": [{"type": "text", "text": "x"}] * 1_000}

    posted = a_chat(many).chat_message("claude_agents:assistant")

    assert posted.chars == 1_000 * (1 + PART_CHARS)
    assert posted.build_request(0, with_history=True).size >= 1_000 * PART_CHARS
