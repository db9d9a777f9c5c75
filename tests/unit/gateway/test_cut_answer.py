"""Answers that were not streamed and broke off."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.cut_answer import BROKEN_OFF, CutAnswer, parse_cut_answer
from app.gateway.estimate import CallSize
from app.usage.records import ProviderCall, TokenUsage
from tests.factories import not_none

MODEL = "claude-haiku-5-5"
CALL = ProviderCall(requested_model=MODEL, provider_request_id="req_1")
SIZE = CallSize(MODEL, TokenUsage(output_tokens=100), TokenUsage(cache_write_5m_tokens=40))
ANSWER = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "model": "claude-haiku-5-5-20260101",
        "content": [
            {"type": "text", "text": "one two three "},
            {"type": "server_tool_use", "name": "web_search", "input": {}},
            {"type": "text", "text": "four five"},
        ],
        "usage": {"input_tokens": 11, "output_tokens": 25},
    }
).encode()


def cut(body: bytes) -> CutAnswer | None:
    return parse_cut_answer(body, call=CALL, size=SIZE)


def test_what_had_arrived_is_estimated_and_then_counted() -> None:
    answer = not_none(cut(ANSWER[: ANSWER.index(b" five")]))

    message = answer.message
    assert (message.message_id, message.model) == ("msg_1", "claude-haiku-5-5-20260101")
    assert (message.complete, message.output_estimated, message.note) == (False, True, BROKEN_OFF)
    assert answer.content.text == "one two three four"
    assert message.usage == TokenUsage(output_tokens=5, cache_write_5m_tokens=40, web_search_requests=1)
    assert answer.counted(prompt=None, output=None) == message
    assert answer.counted(prompt=12, output=4).usage == TokenUsage(
        input_tokens=12, output_tokens=4, web_search_requests=1
    )


def test_numbers_that_may_be_cut_off_are_not_read() -> None:
    answer = not_none(cut(ANSWER[:-3]))

    assert answer.message.usage.output_tokens == 6


def test_no_more_is_charged_than_was_requested() -> None:
    answer = not_none(cut(b'{"type": "message", "content": [{"type": "text", "text": "' + b"a " * 200))

    assert answer.message.message_id == "req_1"
    assert answer.message.usage.output_tokens == 100
    assert answer.counted(prompt=1, output=300).usage.output_tokens == 100


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"id": "msg_1"',
        b'{"type": "error", "error": {"typ',
        b"[1, 2",
        b"{" * 300_000,
        b"\xff{",
        b"nul",
    ],
    ids=lambda body: body[:20].decode("latin-1"),
)
def test_without_a_message_nothing_is_estimated(body: bytes) -> None:
    assert cut(body) is None


@given(st.integers(0, len(ANSWER)))
def test_more_of_an_answer_is_never_less_output(end: int) -> None:
    shorter, longer = cut(ANSWER[:end]), cut(ANSWER[: end + 1])

    if shorter is not None:
        assert longer is not None
        assert 0 <= shorter.message.usage.output_tokens <= longer.message.usage.output_tokens <= 6


@given(st.binary(max_size=200))
def test_no_bytes_break_it(data: bytes) -> None:
    cut(data)
    cut(b'{"type": "message", "content": [' + data)
