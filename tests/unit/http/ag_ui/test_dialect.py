"""Which dialect a client gets, and the attachments that earlier releases post."""

from typing import Any

import pytest
from ag_ui.core import MessagesSnapshotEvent

from app.errors import Invalid
from app.http.ag_ui.input import AgUiInput, chat_message
from app.http.ag_ui.releases.dialect import CURRENT, OLDEST, UNKNOWN

USER = {"id": "u", "role": "user", "content": "hi"}
REASONING = {"id": "q", "role": "reasoning", "content": "hm"}
OF_SUBAGENT = {"id": "s", "role": "assistant", "content": "x", "subagentRunId": "c"}
RESUME = [{"interruptId": "r-1/3/p-1", "status": "cancelled"}]


def posted(*messages: dict[str, Any], release: str | None = None, **fields: Any) -> AgUiInput:
    body = {"threadId": "t", "runId": "r", "messages": [*messages, USER], **fields}
    return AgUiInput.parse(body, release=release)


@pytest.mark.parametrize(
    ("client", "knows"),
    [
        (posted(protocolVersion="1.0"), "reasoning interrupts subagents cancelled"),
        (posted(protocolVersion="2.0"), "reasoning interrupts subagents cancelled"),
        (posted(release="1.0"), "reasoning interrupts subagents cancelled"),
        (posted(release="0.0.59"), "reasoning interrupts subagents"),
        (posted(release="0.0.58"), "reasoning interrupts"),
        (posted(release="0.0.53"), "reasoning"),
        (posted(release="0.0.44"), ""),
        (posted(OF_SUBAGENT), "reasoning interrupts subagents"),
        (posted(resume=RESUME), "reasoning interrupts"),
        (posted(REASONING), "reasoning"),
        (posted(release="0.0.42"), ""),
    ],
)
def test_a_client_gets_what_its_request_shows_that_it_knows(client: AgUiInput, knows: str) -> None:
    parts = ("reasoning", "interrupts", "subagents", "cancelled")
    known = [part for part in parts if getattr(client.dialect, f"has_{part}")]

    assert known == knows.split()
    assert (client.dialect is CURRENT, client.dialect is OLDEST) == (len(known) == 4, not known)


def test_a_client_that_shows_nothing_may_have_reasoning() -> None:
    assert posted().dialect is UNKNOWN
    assert posted(REASONING).dialect.may_have_reasoning
    assert not posted(REASONING, protocolVersion="1.0").dialect.may_have_reasoning


def test_attachments_of_a_snapshot_are_in_a_line_that_early_clients_skip() -> None:
    look = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
    message = {"id": "u", "role": "user", "content": [{"type": "text", "text": "look"}, look]}
    event = MessagesSnapshotEvent.model_validate({"messages": [message]})

    for_all, for_some = (UNKNOWN.frame(each) for each in UNKNOWN.translate(event))

    assert for_all.startswith("data: ")
    assert '"content":"look"' in for_all
    assert for_some.startswith("data:{")
    assert '"image/png"' in for_some


def contents(*parts: dict[str, Any]) -> list[Any]:
    given = posted_parts(*parts)
    message = chat_message("messages:assistant", given, given.messages)
    request = message.build_request(0, with_history=False)
    return list(request.messages[-1].parts)


def posted_parts(*parts: dict[str, Any]) -> AgUiInput:
    message = {"id": "u", "role": "user", "content": [{"type": "text", "text": "look"}, *parts]}
    return AgUiInput.parse({"threadId": "t", "runId": "r", "messages": [message]})


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"mimeType": "image/png", "url": "https://example.org/x.png"}, ".url"),
        ({"mimeType": "application/zip", "data": "AAAA"}, ""),
        ({"mimeType": "audio/wav", "data": "AAAA"}, ""),
        ({"mimeType": "image/png", "id": "file-1"}, ""),
        ({"mimeType": "image/png", "data": "AAAA"}, ""),
    ],
)
def test_other_binary_parts_of_the_new_message_are_refused_and_named(
    part: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as raised:
        contents({"type": "binary", **part})

    assert [error.field for error in raised.value.errors] == [f"messages.0.content.1{field}"]


def test_a_malformed_binary_part_is_named() -> None:
    with pytest.raises(Invalid) as raised:
        posted_parts({"type": "binary", "data": "AAAA"})

    assert [error.field for error in raised.value.errors] == ["messages.0.content.1.mimeType"]


BAD_PARTS = [{"type": "zip"}, {"type": "binary", "data": "AAAA"}, "x", {"type": "image", "source": 1}]


def test_what_cannot_be_read_of_earlier_messages_ends_no_thread() -> None:
    text = {"type": "text", "text": "look"}
    earlier: list[Any] = [
        *({"id": f"u{n}", "role": "user", "content": [text, part]} for n, part in enumerate(BAD_PARTS)),
        {"id": "a", "role": "assistant", "content": [text, {"type": "x"}]},
        {"id": "t", "role": "tool", "toolCallId": "c", "content": None},
        {"id": "b", "role": "assistant", "content": "so", "toolCalls": [1]},
        *({"id": "x", "role": "alien", "content": "x"}, {"role": "user", "content": 1}, 1),
        {"id": "last", "role": "user", "content": "What is it?"},
    ]

    given = AgUiInput.parse({"threadId": "t", "runId": "r", "messages": earlier})
    request = chat_message("messages:assistant", given, given.messages).build_request(0, with_history=True)

    # Errors name a message by its place.
    assert len(given.messages) == len(earlier)
    note = "[An attachment of type document that cannot be read here.]"
    assert [(each.role, each.text) for each in request.messages] == [
        *[("user", f"look\n\n{note}")] * len(BAD_PARTS),
        *(("assistant", "look"), ("assistant", "so"), ("user", "What is it?")),
    ]
    with pytest.raises(Invalid) as raised:
        AgUiInput.parse({"threadId": "t", "runId": "r", "messages": earlier[:-3]})
    assert {error.field.split(".")[1] for error in raised.value.errors} >= {str(len(earlier) - 4)}
