"""Usage that the provider does not report, reports twice, or reports as something else."""

import json
from typing import Any

import pytest

from app.gateway.answer_usage import RESTARTED, SECOND, UNCOUNTED, StreamFold, is_error, parse_message
from app.simulator import wire
from app.simulator.script import HttpError
from app.usage.provider import MOST_BYTES, OVERSIZED
from app.usage.records import TokenUsage
from tests.factories import not_none
from tests.unit.gateway.test_answer_usage import CALL, EVENTS, MODEL, delta, of, text


def test_usage_that_was_never_reported_is_estimated_and_named() -> None:
    start = {"type": "message_start", "message": {"id": "msg_1", "model": MODEL}}
    fold = StreamFold(longest_output=5, prompt_tokens=321)
    for event in (start, text("x" * 400), delta()):
        fold.feed(wire.sse(event))
    cut = StreamFold(prompt_tokens=321)
    cut.feed(wire.sse(start))
    body = json.dumps({"id": "msg_1", "model": MODEL, "content": [{"type": "text", "text": "x" * 400}]})
    whole = parse_message(body.encode(), call=CALL, prompt_tokens=321, longest_output=5)

    for message in (fold.message, whole):
        assert message is not None
        assert message.usage == TokenUsage(input_tokens=321, output_tokens=5)
        assert (message.unreadable, message.note, message.output_estimated) == (
            *(("input_tokens", "output_tokens"), UNCOUNTED, True),
        )
    ended_early = not_none(cut.finish())
    assert (ended_early.usage.input_tokens, ended_early.unreadable) == (321, ("input_tokens",))


@pytest.mark.parametrize("lots", ["lots", 12.5, True, -1, 10**12, [3], {"n": 3}])
def test_a_count_that_is_no_number_is_named_and_not_replaced(lots: Any) -> None:
    fold = StreamFold(prompt_tokens=321)
    fold.feed(wire.sse({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": lots}}}))
    fold.feed(wire.sse(delta(output_tokens=7)))

    assert fold.message is not None
    assert (fold.message.unreadable, fold.message.usage.input_tokens) == (("input_tokens",), 0)


def of_one(events: list[dict[str, Any]]) -> tuple[int, int, str | None]:
    found = not_none(of(events).finish())
    return found.usage.input_tokens, found.usage.output_tokens, found.note


def test_of_different_numbers_for_one_message_the_highest_count() -> None:
    again = {**EVENTS[0], "message": {**EVENTS[0]["message"], "usage": {"input_tokens": 4_000}}}

    assert of_one([*EVENTS, again, delta(output_tokens=5)]) == (4_000, 99, RESTARTED)
    assert of_one([*EVENTS, delta(output_tokens=5)]) == (10, 99, RESTARTED)
    assert of_one([*EVENTS, delta(output_tokens=500)]) == (10, 500, None)
    assert of_one([EVENTS[0], delta(None, output_tokens=9), delta(output_tokens=8)]) == (10, 8, None)


def test_a_second_message_of_a_response_is_not_charged() -> None:
    second = {"type": "message_start", "message": {"id": "msg_2", "usage": {"input_tokens": 4_000}}}

    assert of_one([*EVENTS, second, delta(output_tokens=500)]) == (10, 99, SECOND)
    assert of_one([EVENTS[0], second, *EVENTS[1:]]) == (10, 99, SECOND)


@pytest.mark.parametrize("count", ["NaN", "-Infinity", "1e400", "1" + "0" * 30])
def test_a_number_that_no_number_can_hold_is_no_missing_one(count: str) -> None:
    for name in ("new_counter", "output_tokens"):
        fold = of(EVENTS[:1])
        event = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {name: "?"}}
        fold.feed(wire.sse(event).replace(b'"?"', count.encode()))

        assert fold.message is not None
        reported = fold.message.reported
        kept = str(reported.get(f"{name}_invalid", reported.get(name)))
        assert count.startswith(kept.rstrip("."))


def test_what_is_no_utf_8_does_not_hide_the_numbers_beside_it() -> None:
    fold = of(EVENTS[:1])
    fold.feed(wire.sse({**delta(output_tokens=77), "x": "?"}).replace(b"?", b"\xe9"))
    body = {"id": "m", "content": [{"text": "?"}], "usage": {"input_tokens": 5, "output_tokens": 6}}
    whole = parse_message(json.dumps(body).encode().replace(b"?", b"\xff"), call=CALL)

    assert fold.message is not None
    assert (fold.message.complete, fold.message.usage.output_tokens) == (True, 77)
    assert whole is not None
    assert whole.usage == TokenUsage(input_tokens=5, output_tokens=6)


@pytest.mark.parametrize("event", ["", "event: message_delta\n", "event: content_block_delta\n"])
def test_numbers_that_cannot_be_read_are_named(event: str) -> None:
    fold = of(EVENTS[:1])
    fold.feed(f"{event}data: {{broken\n\n".encode())
    message = not_none(fold.finish())

    assert message.unreadable == (() if "content" in event else ("output_tokens",))


def test_many_deltas_make_no_larger_usage_than_one() -> None:
    fold = of(EVENTS[:1])
    for number in range(5):
        more = {f"key_{number}_{each}": each for each in range(1_500)}
        fold.feed(wire.sse({**delta(), "usage": {"output_tokens": 77, **more}}))

    assert fold.message is not None
    assert fold.message.usage.output_tokens == 77
    assert fold.message.reported[OVERSIZED] is True
    assert len(json.dumps(fold.message.reported)) <= MOST_BYTES


def test_only_an_error_of_the_api_is_an_error() -> None:
    assert not any(map(is_error, (b"", b"{}", b"[]", b"{", b'{"id": "msg_1"}', b'"text"')))
    assert is_error(json.dumps(wire.error(HttpError(529, "overloaded_error"))).encode())
