"""What has arrived of a message that is cut off, and how many tokens it is taken for."""

import base64
from typing import Any

import pytest

from app.gateway.answers.received import KEPT_BYTES, ReceivedContent


def received(*events: dict[str, Any]) -> ReceivedContent:
    """Blocks and deltas in order; a delta has no `type`, or one that ends with `_delta`."""
    content = ReceivedContent()
    for event in events:
        is_delta = str(event.get("type", "_delta")).endswith("_delta")
        (content.add if is_delta else content.start_block)(event, 100)
    return content


def a_search(name: str = "web_search") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": {}}


def found(content: Any) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


@pytest.mark.parametrize(
    ("pieces", "tokens"),
    [
        ([], 0),
        ([""], 0),
        (["unbelievable"], 3),
        (["a b c d e f"], 6),
        (["a", "b", " ", "c", " d", "e f"], 4),
        (["a b ", "c d ", " e f"], 6),
        (["数えきれない"], 5),
    ],
)
def test_visible_output_is_no_less_than_its_words_and_a_quarter_of_its_bytes(
    pieces: list[str], tokens: int
) -> None:
    content = received(*({"text": piece} for piece in pieces))

    assert (content.tokens(), content.text) == (tokens, "".join(pieces))


def test_tool_input_and_thinking_are_output() -> None:
    content = received(
        {"type": "thinking", "thinking": "", "signature": ""},
        {"thinking": "let me think"},
        {"type": "tool_use", "id": "t", "name": "n", "input": {}},
        {"partial_json": '{"expression": '},
        {"partial_json": '"1 + 1"}'},
    )

    assert content.text == 'let me think{"expression": "1 + 1"}'
    assert content.tokens() == 9


def test_input_that_comes_with_its_block_is_output() -> None:
    assert received({"type": "tool_use", "name": "n", "input": {"a": 1}}).text == '{"a": 1}'


THOUGHT = 12_000 * b"x"
ENCRYPTED = base64.b64encode(THOUGHT).decode()


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "thinking", "thinking": ""}, {"thinking": ""}, {"signature": ENCRYPTED}],
        [
            {"type": "thinking", "thinking": ""},
            {"signature": ENCRYPTED[:2000]},
            {"signature": ENCRYPTED[2000:]},
        ],
        [{"type": "redacted_thinking", "data": ENCRYPTED}],
        [{"type": "thinking", "thinking": ""}, {"thinking": "a summary of it."}, {"signature": ENCRYPTED}],
        [{"type": "thinking"}, {"thinking": "", "estimated_tokens": 2000}, {"estimated_tokens": 1000}],
    ],
    ids=["only a signature", "a signature in parts", "redacted", "summarized", "announced"],
)
def test_hidden_thinking_is_counted_once(events: list[dict[str, Any]]) -> None:
    alone = received(*events)
    twice = received(*events, *events)
    followed = received(*events, {"type": "text", "text": ""}, {"text": "Done."})

    assert alone.tokens() == 3000
    assert (twice.tokens(), followed.tokens()) == (6000, 3002)


def test_a_signature_adds_nothing_to_thinking_that_was_shown_completely() -> None:
    thinking = "so " * 1000

    content = received({"type": "thinking"}, {"thinking": thinking}, {"signature": ENCRYPTED[:4000]})

    assert content.tokens() == 1000
    # The provider counts what is visible.
    assert content.tokens(counted=1234) == 1234


def test_what_the_provider_counted_does_not_contain_what_was_hidden() -> None:
    content = received({"type": "redacted_thinking", "data": ENCRYPTED}, {"type": "text"}, {"text": "Done."})

    assert content.tokens(counted=7) == 3007


@pytest.mark.parametrize(
    ("events", "searches"),
    [
        ([], 0),
        ([a_search()], 1),
        ([a_search(), found([])], 1),
        ([a_search(), found([]), a_search()], 2),
        ([a_search(), found({"type": "web_search_tool_result_error", "error_code": "unavailable"})], 0),
        ([found(None), a_search()], 1),
        ([a_search("web_fetch"), a_search("code_execution")], 0),
    ],
)
def test_searches_that_have_begun_are_counted_unless_they_failed(
    events: list[dict[str, Any]], searches: int
) -> None:
    assert received(*events).searches == searches


def test_what_a_search_found_is_no_output() -> None:
    page = {"type": "web_search_result", "title": "t", "encrypted_content": ENCRYPTED}

    assert received(a_search(), {"partial_json": '{"query": "x"}'}, found([page])).tokens() == 4


@pytest.mark.parametrize("value", [None, 7, [], {"a": 1}, True])
def test_parts_that_are_no_text_are_nothing(value: Any) -> None:
    content = received(
        {"type": value, "name": value, "text": value, "data": value},
        dict.fromkeys(("text", "thinking", "partial_json", "signature", "estimated_tokens"), value),
    )

    assert content.tokens() == (7 if value == 7 else 0)


def test_tokens_of_what_is_not_kept_are_extrapolated() -> None:
    content = ReceivedContent()
    content.add({"text": "x" * 4000}, KEPT_BYTES)
    assert content.is_full
    content.add({"text": "x" * 4000}, KEPT_BYTES // 2)

    assert (content.tokens(), len(content.text)) == (1500, 4000)
