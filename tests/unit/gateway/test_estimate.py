import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway import estimate
from app.usage.records import UNKNOWN_MODEL, TokenUsage

PICTURE = base64.b64encode(b"\x89PNG" + bytes(300_000)).decode()
FRAME = 400
"""Bytes of a request besides its text, at most."""


def a_size(content: Any = "hello", **fields: Any) -> estimate.CallSize:
    request = {
        "model": "claude-haiku-5-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": content}],
    }
    return estimate.size_of(json.dumps({**request, **fields}).encode())


def an_image(**source: Any) -> dict[str, Any]:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PICTURE, **source},
    }


def test_text_counts_by_its_bytes_wherever_it_is() -> None:
    text = "x" * 10_000
    tools = [{"name": "t", "description": text, "input_schema": {}}]
    sizes = [
        a_size(text),
        a_size([{"type": "text", "text": text}]),
        a_size([{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": text}]}]),
        a_size(system=text),
        a_size(tools=tools),
    ]
    with_tools = sizes[-1]

    for size in sizes:
        # A token is a byte at least.
        assert (
            10_000
            <= size.maximum.input_tokens
            <= 10_000 + FRAME + (estimate.TOOLS_OVERHEAD if size is with_tools else 0)
        )
        assert 2_500 <= size.estimate.input_tokens <= 2_500 + FRAME
        assert size.maximum.output_tokens == 100


def test_an_image_counts_as_one_whatever_its_bytes() -> None:
    in_a_result = [{"type": "tool_result", "tool_use_id": "1", "content": [an_image()]}]
    elsewhere = an_image(type="url", url="https://example.org/a.png", data=None)

    for content in ([an_image()], in_a_result, [elsewhere]):
        size = a_size(content)
        assert estimate.MOST_IMAGE_TOKENS <= size.maximum.input_tokens <= estimate.MOST_IMAGE_TOKENS + FRAME
        assert estimate.IMAGE_TOKENS <= size.estimate.input_tokens <= estimate.IMAGE_TOKENS + FRAME
    assert a_size([an_image()] * 3).maximum.input_tokens >= 3 * estimate.MOST_IMAGE_TOKENS


def test_what_only_looks_like_an_image_counts_as_text() -> None:
    disguised = json.dumps(an_image())

    assert a_size(disguised).maximum.input_tokens > len(PICTURE)
    assert a_size(
        [{"type": "tool_use", "id": "1", "name": "t", "input": an_image()}]
    ).maximum.input_tokens > len(PICTURE)


def test_documents_count_by_their_bytes_or_as_long_ones() -> None:
    here = {"type": "document", "source": {"type": "base64", "data": PICTURE}}
    there = {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}

    for document in (here, there):
        # However few bytes a PDF has, its pages may be many.
        assert (
            estimate.DOCUMENT_TOKENS
            <= a_size([document]).maximum.input_tokens
            <= estimate.DOCUMENT_TOKENS + FRAME
        )
    assert a_size([here]).estimate.input_tokens >= len(PICTURE) // 4

    text = {"type": "document", "source": {"type": "text", "data": "x" * 1_000}}
    assert 1_000 <= a_size([text]).maximum.input_tokens <= 1_000 + FRAME
    nested = {"type": "document", "source": {"type": "content", "content": [an_image()]}}
    assert a_size([nested]).maximum.input_tokens <= estimate.MOST_IMAGE_TOKENS + FRAME


@pytest.mark.parametrize(
    ("control", "kind"),
    [
        ({"type": "ephemeral"}, "cache_write_5m_tokens"),
        ({"type": "ephemeral", "ttl": "1h"}, "cache_write_1h_tokens"),
    ],
)
def test_a_prompt_for_the_cache_counts_as_written_to_it(control: dict[str, str], kind: str) -> None:
    size = a_size([{"type": "text", "text": "x" * 10_000, "cache_control": control}])

    assert size.maximum.input_tokens == 0
    assert getattr(size.maximum, kind) >= 10_000
    assert size.counted(3_000).estimate == replace(TokenUsage(), **{kind: 3_000})
    assert 3_000 < getattr(size.counted(3_000).maximum, kind) < 3_200


def test_a_mark_for_the_cache_may_be_written_as_an_escape() -> None:
    marked = (
        '{"model": "m", "messages": [{"content": [{"text": "x", "cach\\u0065_control": {"ttl": "1h"}}]}]}'
    )

    assert estimate.size_of(marked.encode()).kind == "cache_write_1h_tokens"
    # Some clients escape these.
    assert (
        estimate.size_of(marked.replace("65", "60").replace("_control", "").encode()).kind == "input_tokens"
    )


@pytest.mark.parametrize("number", ["500000", 500_000.0])
def test_a_limit_that_a_less_strict_reader_takes_for_a_number_counts(number: str | float) -> None:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": number}

    assert a_size(tools=[tool]).maximum.web_search_requests == 500_000
    assert a_size(max_tokens=number).maximum.output_tokens == 500_000
    assert a_size(max_tokens=type(number)(1)).maximum.output_tokens == estimate.LONGEST_OUTPUT


def test_searches_count_as_many_as_are_allowed() -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}

    assert a_size(tools=[{**tool, "max_uses": 3}]).maximum.web_search_requests == 3
    assert a_size(tools=[tool]).maximum.web_search_requests == estimate.SEARCHES


def test_a_tool_of_the_provider_makes_it_read_the_prompt_again() -> None:
    text = "x" * 10_000
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    size = a_size(text, tools=[tool])

    results = 3 * estimate.TOOL_RESULT_TOKENS + 2 * estimate.TOOL_RESULT_TOKENS + estimate.TOOL_RESULT_TOKENS
    assert size.maximum.input_tokens >= 4 * 10_000 + results
    # The provider counts one reading.
    counted = size.counted(1_000).maximum
    assert 4 * 1_000 + results < counted.input_tokens < 5 * 1_000 + results
    assert (counted.output_tokens, counted.web_search_requests) == (100, 3)


@pytest.mark.parametrize(
    ("fields", "others"),
    [
        ({}, {}),
        ({"fallbacks": [{"model": "claude-opus-5"}, {"model": "claude-opus-5"}, 7]}, {"claude-opus-5": 2}),
        ({"tools": [{"type": "advisor_1", "model": "claude-opus-5", "max_uses": 3}]}, {"claude-opus-5": 3}),
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, {"claude-haiku-5-5": 1}),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, {}),
        ({"context_management": 3, "fallbacks": {"model": "x"}, "tools": "x"}, {}),
    ],
)
def test_models_that_may_answer_besides_are_named(fields: dict[str, Any], others: dict[str, int]) -> None:
    assert a_size("hello", **fields).others == others


@pytest.mark.parametrize("length", [True, -5, 0, 12.5, "100", None, [100]])
def test_a_length_that_is_no_number_limits_nothing(length: Any) -> None:
    assert a_size(max_tokens=length).maximum.output_tokens == estimate.LONGEST_OUTPUT


def test_thinking_may_be_longer_than_the_message() -> None:
    thinking = {"type": "enabled", "budget_tokens": 30_000}

    assert a_size(thinking=thinking).maximum.output_tokens == 30_000


@given(text=st.text(), ascii_only=st.booleans())
def test_no_text_has_more_bytes_than_its_bound(*, text: str, ascii_only: bool) -> None:
    encodable = text.encode("utf-8", "ignore").decode()
    request = {"messages": [{"role": "user", "content": encodable}]}

    size = estimate.size_of(json.dumps(request, ensure_ascii=ascii_only).encode())

    assert size.maximum.input_tokens >= len(encodable.encode())


def test_a_count_never_raises_the_bound() -> None:
    size = a_size("hello")

    assert size.counted(10**9).maximum == size.maximum


@pytest.mark.parametrize(
    "body",
    [b"", b"no json", b"[]", b'{"model": 7, "max_tokens": "many", "messages": {"a": [null]}}', b"[" * 90_000],
)
def test_a_request_nobody_understands_is_as_long_as_it_may_be(body: bytes) -> None:
    size = estimate.size_of(body)

    assert (size.model, size.maximum.output_tokens) == (UNKNOWN_MODEL, estimate.LONGEST_OUTPUT)
    assert size.maximum.input_tokens == len(body) + estimate.PROMPT_OVERHEAD


def test_a_request_of_too_many_parts_is_not_read() -> None:
    with pytest.raises(estimate.PromptTooLarge):
        estimate.size_of(b"[" + b"[]," * estimate.MOST_PARTS + b"[]]")
