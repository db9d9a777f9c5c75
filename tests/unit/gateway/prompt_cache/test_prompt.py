import json
from typing import Any

import pytest

from app.gateway.prompt_cache.prompt import MOST_PARTS, cached_prompt, read_request
from tests.unit.gateway.prompt_cache.prompts import HOUR, MARK, a_prompt, a_request, text


def test_the_last_mark_counts_what_is_before_it() -> None:
    assert a_prompt(1).marked == 5
    assert a_prompt(3).marked == 9
    assert a_prompt(1, messages=[{"role": "user", "content": "hi"}]).marked == 4
    assert a_prompt(1, messages=[], system="plain").marked == 0
    assert a_prompt(1, messages=[], system="plain", tools=[{"name": "one", **MARK}, {}]).marked == 1


@pytest.mark.parametrize(("mark", "ttl_s"), [(MARK, 300), (HOUR, 3600)])
def test_a_mark_says_how_long_it_is_kept(mark: dict[str, Any], ttl_s: int) -> None:
    assert a_prompt(1, messages=[{"role": "user", "content": [text("hi", **mark)]}]).ttl_s == ttl_s


def test_a_mark_in_the_result_of_a_tool_is_found() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("5"), text("6", **MARK)]}
    assert a_prompt(1, messages=[{"role": "user", "content": [result]}]).marked == 5


def test_marks_and_the_way_a_text_is_written_change_nothing() -> None:
    blocks = a_prompt(1, messages=[{"role": "user", "content": [text("hi", **MARK)]}])
    plain = a_prompt(1, messages=[{"role": "user", "content": "hi"}])
    assert blocks.messages == plain.messages
    assert a_prompt(1, system=[text("who")]).system == a_prompt(1, system="who").system


def test_parameters_are_what_decides_about_the_cache() -> None:
    usual = a_prompt().parameters
    assert a_prompt(max_tokens=5, stream=False, metadata={"user_id": "x"}).parameters == usual
    assert a_prompt(thinking={"type": "enabled"}).parameters != usual
    assert a_prompt(tool_choice={"type": "any"}).parameters != usual


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'"text"', b"\xff", b"[" * 100_000, b"{" + b'"a":[' * (MOST_PARTS + 1)],
    ids=["empty", "list", "cut", "text", "no UTF-8", "deep", "too many parts"],
)
def test_what_is_no_request_has_no_prompt(body: bytes) -> None:
    assert read_request(body) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": 5, "tools": "x", "system": 7, "model": ["m"]},
        {"messages": [1, None, "x", [], {"content": 5}, {"content": [None, {"cache_control": "x"}]}]},
        {"model": "a" * 10_000, "messages": [{"content": "\x00"}]},
        {"tools": [{"cache_control": None}, {"cache_control": {"ttl": ["1h"]}}]},
    ],
)
def test_hostile_requests_have_some_prompt(fields: dict[str, Any]) -> None:
    prompt = a_prompt(**fields)
    assert 0 <= prompt.marked <= len(list(prompt.parts))


def test_a_lone_surrogate_is_text_like_any_other() -> None:
    body = json.dumps(a_request(messages=[{"role": "user", "content": "\ud800"}])).encode()
    request = read_request(body)
    assert (
        request is None
        or cached_prompt(request).messages != a_prompt(messages=[{"role": "user", "content": "?"}]).messages
    )
