import base64
import json
from typing import Any

import pytest

from app.gateway.estimate import (
    DOCUMENT_TOKENS,
    IMAGE_TOKENS,
    LONGEST_OUTPUT,
    MOST_IMAGE_TOKENS,
    MOST_PARTS,
    SEARCHES,
    CallSize,
    PromptTooLarge,
    size_of,
)
from app.usage import UNKNOWN_MODEL

PICTURE = base64.b64encode(b"\x89PNG" + bytes(300_000)).decode()
FRAME = 400
"""Bytes of a request besides its text, at most."""


def a_size(content: Any = "hello", **fields: Any) -> CallSize:
    request = {
        "model": "claude-haiku-5-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": content}],
    }
    return size_of(json.dumps({**request, **fields}).encode())


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

    for size in sizes:
        assert 5_000 <= size.maximum.input_tokens <= 5_000 + FRAME
        assert 2_500 <= size.estimate.input_tokens <= 2_500 + FRAME
        assert size.maximum.output_tokens == 100


def test_an_image_counts_as_one_whatever_its_bytes() -> None:
    in_a_result = [{"type": "tool_result", "tool_use_id": "1", "content": [an_image()]}]
    elsewhere = an_image(type="url", url="https://example.org/a.png", data=None)

    for content in ([an_image()], in_a_result, [elsewhere]):
        size = a_size(content)
        assert MOST_IMAGE_TOKENS <= size.maximum.input_tokens <= MOST_IMAGE_TOKENS + FRAME
        assert IMAGE_TOKENS <= size.estimate.input_tokens <= IMAGE_TOKENS + FRAME
    assert a_size([an_image()] * 3).maximum.input_tokens >= 3 * MOST_IMAGE_TOKENS


def test_what_only_looks_like_an_image_counts_as_text() -> None:
    disguised = json.dumps(an_image())

    assert a_size(disguised).maximum.input_tokens > len(PICTURE) // 2
    assert a_size(
        [{"type": "tool_use", "id": "1", "name": "t", "input": an_image()}]
    ).maximum.input_tokens > (len(PICTURE) // 2)


def test_documents_count_by_their_bytes_or_as_long_ones() -> None:
    here = {"type": "document", "source": {"type": "base64", "data": PICTURE}}
    there = {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}

    assert a_size([here]).maximum.input_tokens >= len(PICTURE) // 2
    assert a_size([there]).maximum.input_tokens >= DOCUMENT_TOKENS


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
    assert getattr(size.maximum, kind) >= 5_000


def test_searches_count_as_many_as_are_allowed() -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}

    assert a_size(tools=[{**tool, "max_uses": 3}]).maximum.web_search_requests == 3
    assert a_size(tools=[tool]).maximum.web_search_requests == SEARCHES


@pytest.mark.parametrize(
    "body",
    [b"", b"no json", b"[]", b'{"model": 7, "max_tokens": "many", "messages": {"a": [null]}}', b"[" * 90_000],
)
def test_a_request_nobody_understands_is_as_long_as_it_may_be(body: bytes) -> None:
    size = size_of(body)

    assert (size.model, size.maximum.output_tokens) == (UNKNOWN_MODEL, LONGEST_OUTPUT)
    assert size.maximum.input_tokens == len(body) // 2


def test_a_request_of_too_many_parts_is_not_read() -> None:
    with pytest.raises(PromptTooLarge):
        size_of(b"[" + b"[]," * MOST_PARTS + b"[]]")
