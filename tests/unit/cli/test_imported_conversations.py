from typing import Any

import pytest

from app.cli.imports.conversation import conversations_in, read_messages

QUESTION, ANSWER = "What time is it?", "Nine.\n\nAt night."
IMAGE = {"type": "image_url", "image_url": {"url": "https://x/a.png"}}

OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": QUESTION}, IMAGE]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function"}]},
    {"role": "tool", "tool_call_id": "c", "content": "21:00"},
    {"role": "assistant", "content": ANSWER},
]
LANGCHAIN = [
    {"type": "human", "data": {"content": QUESTION, "type": "human"}},
    {"type": "ai", "data": {"content": [{"type": "text", "text": "Nine."}, "At night."], "type": "ai"}},
]
LANGCHAIN_PLAIN = [{"type": "human", "content": QUESTION}, {"type": "ai", "content": ANSWER}]
LANGCHAIN_SERIALIZED = [
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", name],
        "kwargs": {"content": text},
    }
    for name, text in (("HumanMessage", QUESTION), ("AIMessage", ANSWER))
]
AI_SDK = {
    "id": "chat",
    "messages": [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": QUESTION}]},
        {
            "id": "2",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "Hm."},
                {"type": "text", "text": ANSWER},
            ],
        },
    ],
}


def node(name: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
    message = {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}}
    return {"id": name, "parent": parent, "children": [], "message": message}


CHATGPT = {
    "title": "Time",
    "current_node": "c",
    "mapping": {
        "root": {"id": "root", "parent": None, "message": None},
        "other": node("other", "a", "assistant", "Another answer."),
        "c": node("c", "a", "assistant", ANSWER),
        "a": node("a", "s", "user", QUESTION),
        "s": node("s", "root", "system", ""),
    },
}


@pytest.mark.parametrize(
    ("document", "left_out"),
    [
        (
            OPENAI,
            {
                "message of the role system": 1,
                "part of the type image_url": 1,
                "message without text": 1,
                "message of the role tool": 1,
            },
        ),
        ({"model": "gpt-5", "messages": OPENAI[1:2] + OPENAI[4:]}, {"part of the type image_url": 1}),
        (LANGCHAIN, {}),
        (LANGCHAIN_PLAIN, {}),
        (LANGCHAIN_SERIALIZED, {}),
        (AI_SDK, {"part of the type reasoning": 1}),
        ([CHATGPT], {"message of the role system": 1}),
        (CHATGPT, {"message of the role system": 1}),
    ],
)
def test_a_conversation_of_another_program_becomes_messages(document: Any, left_out: dict[str, int]) -> None:
    (entries,) = conversations_in(document).values()

    found = read_messages(entries)

    assert [(each["role"], each["content"]) for each in found.messages] == [
        ("user", QUESTION),
        ("assistant", ANSWER),
    ]
    assert found.left_out == left_out


def test_conversations_of_the_same_title_are_told_apart() -> None:
    assert list(conversations_in([CHATGPT, CHATGPT, {**CHATGPT, "title": None}])) == ["Time", "Time (2)", "3"]


@pytest.mark.parametrize("damaged", [{"a": {"parent": "a"}}, {"a": {"parent": "gone"}}, {"a": {}}])
def test_a_damaged_tree_has_no_messages(damaged: dict[str, Any]) -> None:
    (entries,) = conversations_in({"mapping": damaged, "current_node": "a"}).values()

    assert read_messages(entries).messages == []


@pytest.mark.parametrize(
    "entry", [5, None, {}, {"role": 5}, {"type": "human"}, {"role": "user", "content": {}}]
)
def test_what_is_no_message_is_left_out(entry: Any) -> None:
    found = read_messages([entry])

    assert found.messages == []
    assert found.left_out.total() == 1


@pytest.mark.parametrize("document", [{}, 5, None, {"messages": 5}, "text"])
def test_a_file_without_messages_has_no_conversation(document: Any) -> None:
    assert conversations_in(document) == {}
