from typing import Any

import pytest

from app.conversations.neutral_transcript import (
    INTERRUPTED_CALL,
    api_messages,
    assistant_line,
    call_ids_of,
    compaction_line,
    too_long_line,
    user_line,
    without_open_calls,
)
from app.conversations.records import TranscriptEntry
from app.conversations.sdk_transcript import messages_of


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def a_call(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {}}


def a_result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [], "is_error": False}


def entries(*lines: dict[str, Any]) -> list[TranscriptEntry]:
    return [TranscriptEntry(line, "r1") for line in lines]


def test_clients_see_messages_and_calls_and_no_notes() -> None:
    shown = messages_of(
        entries(
            user_line([text("hi")], is_earlier=True),
            assistant_line([text("hello")], is_earlier=True),
            user_line([text("look")]),
            assistant_line([text("So"), a_call("t1")], message_id="msg_1", model="m", stop_reason="tool_use"),
            user_line([a_result("t1"), text("and this")]),
            user_line([text("go on")], is_note=True),
            compaction_line(),
            assistant_line([text("half")], message_id="msg_2", model="m"),
        ),
        tool_id_of=str,
    )

    assert [(message.type, message.content) for message in shown] == [
        ("user_message", "hi"),
        ("assistant_message", "hello"),
        ("user_message", "look"),
        ("assistant_message", "So"),
        ("tool_call", ""),
        ("user_message", "and this"),
        ("system_message", ""),
        ("assistant_message", "half"),
    ]
    assert [message.at is None for message in shown] == [True, True, *[False] * 6]
    assert (shown[4].is_error, shown[-1].partial) == (False, True)


def test_every_call_has_a_result() -> None:
    messages, _ = api_messages(
        entries(
            assistant_line([a_call("t1"), a_call("t2")]),
            user_line([a_result("t1"), text("hi")]),
            assistant_line([a_call("t3")]),
            assistant_line([text("so")]),
            assistant_line([a_call("t4")]),
        )
    )

    assert [message["role"] for message in messages] == [
        *("assistant", "user", "assistant", "user", "assistant", "assistant", "user"),
    ]
    assert [block.get("tool_use_id") for block in messages[1]["content"]] == ["t2", "t1", None]
    assert INTERRUPTED_CALL in str(messages[3])
    assert messages[6]["content"][0]["tool_use_id"] == "t4"


def test_nothing_before_a_summary_is_sent() -> None:
    summary = {"type": "compaction", "content": "They talked."}
    messages, _ = api_messages(
        entries(user_line([text("old")]), assistant_line([summary]), user_line([text("new")]))
    )

    assert [message["content"] for message in messages] == [[summary], [text("new")]]


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"type": "user"},
        {"type": "assistant", "message": None},
        {"type": "user", "message": {"content": "text"}},
        {"type": "user", "message": {"content": [{"text": "no type"}]}},
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "look"}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result"}]}},
    ],
)
def test_damaged_lines_are_left_out(damaged: dict[str, Any]) -> None:
    question, answer = user_line([text("hi")]), assistant_line([text("hello")])
    messages, unreadable = api_messages(entries(question, damaged, answer))

    assert messages == [
        {"role": "user", "content": [text("hi")]},
        {"role": "assistant", "content": [text("hello")]},
    ]
    assert unreadable == ("type" in damaged)


def test_results_without_their_call_are_left_out() -> None:
    messages, _ = api_messages(
        entries(
            user_line([text("hi")]),
            user_line([a_result("t1"), text("and this")]),
            assistant_line([a_call("t2")]),
            user_line([a_result("t1"), a_result("t2")]),
            user_line([a_result("t2")]),
        )
    )

    assert [message["content"] for message in messages[1:]] == [
        [text("and this")],
        [a_call("t2")],
        [a_result("t2")],
    ]
    assert call_ids_of(messages) == {"t2"}


def test_the_model_gets_a_note_for_what_is_too_long() -> None:
    lines = entries(
        user_line([text("hi")]),
        too_long_line(),
        assistant_line([text("So"), a_call("t1"), a_call("t2")]),
        # Not by a user.
        too_long_line(),
        user_line([{**a_result("t1"), "content": [text("long")]}, a_result("t2"), text("and this")]),
        too_long_line(),
    )
    note = text("[This is left out here: it is too long.]")

    messages, unreadable = api_messages(lines)

    assert [message["content"] for message in messages] == [
        [note],
        [text("So"), a_call("t1"), a_call("t2")],
        [{**a_result("t1"), "content": [note]}, {**a_result("t2"), "content": [note]}],
    ]
    assert unreadable == 0
    assert messages_of(lines, tool_id_of=str)[0].content == "hi"
    assert api_messages(entries(too_long_line())) == ([], 0)


def a_search(call_id: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}}


def pages(call_id: str) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}


def said(*blocks: dict[str, Any], role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


ASKED = said(text("snow?"), role="user")


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        # A call of a message that broke off, and nothing else of it.
        ([ASKED, said(text("So"), a_search("s1")), ASKED], [ASKED, said(text("So")), ASKED]),
        ([ASKED, said(a_search("s1")), ASKED], [ASKED, ASKED]),
        # The first of two.
        (
            [ASKED, said(a_search("s1"), a_search("s2"), pages("s2")), ASKED],
            [ASKED, said(a_search("s2"), pages("s2")), ASKED],
        ),
        # A result without its call.
        ([ASKED, said(pages("s1"), text("So")), ASKED], [ASKED, said(text("So")), ASKED]),
    ],
)
def test_calls_without_results_are_not_sent_back(
    messages: list[dict[str, Any]], sent: list[dict[str, Any]]
) -> None:
    assert without_open_calls(messages) == sent


@pytest.mark.parametrize(
    "messages",
    [
        [ASKED],
        [
            ASKED,
            said(a_search("s1"), pages("s1"), text("So"), a_call("t1")),
            said(a_result("t1"), role="user"),
        ],
        # The provider continues a turn that it has paused.
        [ASKED, said(text("Wait"), a_search("s1"))],
        [ASKED, said(a_search("s1")), said(pages("s1"), text("So")), ASKED],
    ],
)
def test_whole_turns_and_the_last_one_stay_as_they_are(messages: list[dict[str, Any]]) -> None:
    assert without_open_calls(messages) is messages


def test_clients_see_uses_of_the_web_and_no_other_tool_of_the_provider() -> None:
    failed = {**pages("s2"), "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}
    code = {**a_search("c1"), "name": "code_execution"}
    line = assistant_line(
        [a_search("s1"), pages("s1"), a_search("s2"), failed, a_search("s3"), code, text("So")],
        message_id="msg_1",
        model="m",
        stop_reason="end_turn",
    )

    shown = messages_of(entries(line), tool_id_of=str)

    assert [(each.tool_call_id, each.tool_name, each.is_error) for each in shown] == [
        ("s1", "web_search", False),
        ("s2", "web_search", True),
        ("s3", "web_search", None),
        (None, None, None),
    ]
