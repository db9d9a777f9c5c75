"""The messages of a branch as a chat shows them."""

from dataclasses import replace
from typing import Any

from ag_ui.core import AssistantMessage

from app.conversations.messages import ConversationMessage, MessageFile, MessageType
from app.events import ToolCallResult
from app.http.ag_ui.history import ag_ui_messages
from app.http.ai_sdk.messages import ui_messages
from app.ids import AccountId, RunId, RunKey
from app.runs.conversations.page import PageEntry
from app.runs.conversations.records import TurnRecord
from app.runs.conversations.view import ConversationView
from tests.unit.runs.conversations.test_branching import CONVERSATION, NOW

ACCOUNT = AccountId(CONVERSATION.account_id)


def an_entry(kind: MessageType, run: str, message_id: str, text: str = "", **fields: Any) -> PageEntry:
    message = ConversationMessage(kind, run, "now", content=text, message_id=message_id, **fields)
    return PageEntry(message)


def a_call(run: str, call_id: str, result: object, *, message_id: str = "m1") -> PageEntry:
    fields: dict[str, Any] = {"tool_call_id": call_id, "tool_name": "core__add", "args": {"x": 1}}
    entry = an_entry("tool_call", run, message_id, **fields)
    if result is None:
        return entry
    return replace(entry, result=ToolCallResult(tool_call_id=call_id, result=result, is_error=False))


def a_turn(run: str, *, ok: bool | None = True) -> TurnRecord:
    key = RunKey(ACCOUNT, RunId(run))
    return TurnRecord(key, "messages:x", "chat-1", 1, NOW, "", ok, None, None)


ENTRIES = [
    an_entry("user_message", "a", "u1", "Look:", files=(MessageFile("image/png", "aaaa"),)),
    an_entry("assistant_message", "a", "m1", "Let me see."),
    a_call("a", "c1", {"sum": 2}),
    a_call("a", "c2", None),
    an_entry("assistant_message", "a", "m2", "Two."),
    an_entry("user_message", "b", "b/user", "And?"),
    an_entry("assistant_message", "b", "m3", "Th"),
]
VIEW = ConversationView(CONVERSATION, ENTRIES, [a_turn("a"), a_turn("b", ok=None)])


def test_what_an_active_run_has_written_is_left_to_its_stream() -> None:
    assert [entry.message.message_id for entry in VIEW.ended][-2:] == ["m2", "b/user"]
    assert VIEW.up_to([RunId("a")]).entries == ENTRIES[:5]
    assert VIEW.up_to([]).entries == []


def test_an_answer_of_the_ai_sdk_is_one_message_with_its_runs_id() -> None:
    call = {"type": "tool-core__add", "toolCallId": "c1", "input": {"x": 1}, "providerExecuted": True}
    interrupted = {"state": "output-error", "errorText": "The tool call failed: interrupted."}

    assert ui_messages(VIEW.ended) == [
        {
            "id": "u1",
            "role": "user",
            "parts": [
                {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aaaa"},
                {"type": "text", "text": "Look:"},
            ],
        },
        {
            "id": "a",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "text", "text": "Let me see.", "state": "done"},
                {**call, "state": "output-available", "output": {"sum": 2}},
                {**call, "toolCallId": "c2", **interrupted},
                {"type": "step-start"},
                {"type": "text", "text": "Two.", "state": "done"},
            ],
        },
        {"id": "b/user", "role": "user", "parts": [{"type": "text", "text": "And?"}]},
    ]


def test_what_the_model_thought_is_shown_where_the_graph_shows_it() -> None:
    thought = an_entry("assistant_message", "a", "m1", thinking="Hm.")
    entries = [ENTRIES[0], thought, *ENTRIES[1:2]]

    (_, hidden), (_, shown) = ui_messages(entries), ui_messages(entries, show_thinking=True)

    assert [part["type"] for part in hidden["parts"]] == ["step-start", "text"]
    assert shown["parts"][1] == {"type": "reasoning", "text": "Hm.", "state": "done"}
    assert ag_ui_messages(entries) == ag_ui_messages(ENTRIES[:2])


def test_ag_ui_has_calls_beside_their_text_and_results_after_them() -> None:
    shown = ag_ui_messages(VIEW.ended)

    assert [(message.role, message.id) for message in shown] == [
        ("user", "u1"),
        ("assistant", "m1"),
        ("tool", "c1:result"),
        ("tool", "c2:result"),
        ("assistant", "m2"),
        ("user", "b/user"),
    ]
    assert isinstance(shown[1], AssistantMessage)
    assert [call.id for call in shown[1].tool_calls or []] == ["c1", "c2"]
    assert shown[2].content == '{"sum":2}'


def test_ag_ui_has_one_message_for_texts_between_calls() -> None:
    entries = [
        an_entry("assistant_message", "a", "m1", "aa"),
        a_call("a", "c1", 1),
        an_entry("assistant_message", "a", "m1", "bb"),
        a_call("a", "c2", 2),
        an_entry("assistant_message", "a", "m2", "cc"),
    ]

    shown = ag_ui_messages(entries)

    assert [message.id for message in shown] == ["m1", "c1:result", "c2:result", "m2"]
    assert isinstance(shown[0], AssistantMessage)
    assert (shown[0].content, [call.id for call in shown[0].tool_calls or []]) == ("aabb", ["c1", "c2"])


def test_ag_ui_has_the_results_of_a_message_before_the_calls_of_the_next() -> None:
    shown = ag_ui_messages([a_call("a", "c1", 1), a_call("a", "c2", 2, message_id="m2")])

    assert [message.id for message in shown] == ["c1", "c1:result", "c2", "c2:result"]
