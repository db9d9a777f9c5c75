import re
import time
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from app.gateway.answer_usage import MessageUsage, StreamFold
from app.gateway.answers.event_lines import EVENT_BYTES
from app.gateway.answers.received import KEPT_BYTES
from app.simulator import wire
from app.simulator.script import HttpError
from app.usage.records import TokenUsage
from tests.factories import not_none
from tests.unit.gateway.test_answer_usage import EVENTS, MODEL, of


def endless(*, ends: bytes = b"") -> Iterator[bytes]:
    piece = b"x" * 65_536
    yield wire.sse(EVENTS[0])
    while True:
        yield b'event: content_block_delta\ndata: {"delta": {"text": "' + piece + b'"}}' + ends


@pytest.mark.parametrize(
    ("ends", "most"), [(b"", 4 * EVENT_BYTES), (b"\n", 4 * EVENT_BYTES), (b"\n\n", 3 * KEPT_BYTES)]
)
def test_an_answer_without_an_end_takes_bounded_memory_and_is_billed_as_far_as_read(
    ends: bytes, most: int
) -> None:
    fold, read = StreamFold(), 0
    tracemalloc.start()
    for chunk in islice(endless(ends=ends), 600):
        read += len(chunk)
        fold.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    message = not_none(fold.finish())
    assert (message.message_id, message.complete) == ("msg_1", False)
    assert peak < most
    # What is not kept is counted like what is; of an event in lines, the first one is the event.
    assert message.usage.output_tokens == pytest.approx(65_536 / 4 if ends == b"\n" else read / 4, rel=0.02)


@pytest.mark.parametrize("size", [1_000, 64 * 1024, 1_000_000])
@pytest.mark.parametrize("lines", [1, 5])
def test_the_numbers_after_an_event_of_any_size_count(size: int, lines: int) -> None:
    """However large the pieces are, it arrives in."""
    line = b"data: " + b"x" * (2 * EVENT_BYTES // lines) + b"\n"
    large = b"event: content_block_delta\n" + line * lines + b"\n"
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 321}}
    stream = wire.sse(EVENTS[0]) + large * 2
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    fold = StreamFold()

    news = [fold.feed(piece) for piece in (*pieces, *wire.sse(end).splitlines(keepends=True))]

    assert fold.message is not None
    assert (fold.message.complete, fold.message.usage.output_tokens, fold.message.unreadable) == (
        *(True, 321),
        (),
    )
    assert news.count(True) == 2


def test_a_beginning_that_is_too_long_is_not_known() -> None:
    fold = of(EVENTS[:1])
    fold.feed(b"event: message_delta\ndata: " + b"x" * 2 * EVENT_BYTES + b"\n\n")
    message = not_none(fold.finish())

    assert message.unreadable == ("output_tokens",)


def test_a_line_that_comes_byte_by_byte_is_copied_once() -> None:
    fold = StreamFold()
    fold.feed(b"data: " + b"x" * (EVENT_BYTES - 300_000))

    began = time.thread_time()
    for _ in range(200_000):
        fold.feed(b"x")

    assert time.thread_time() - began < 10


def test_a_line_of_countless_values_is_not_parsed() -> None:
    fold = StreamFold()
    tracemalloc.start()
    fold.feed(b"data: [" + b"[]," * (EVENT_BYTES // 3 - 100) + b"0]\n\n" + wire.sse(EVENTS[0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert fold.message is not None
    assert peak < 6 * EVENT_BYTES


def test_what_was_received_is_known_at_once_when_an_answer_is_cut_off() -> None:
    fold = StreamFold()
    fold.feed(wire.sse(EVENTS[0]))
    delta = wire.sse({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}})
    read = time.thread_time()
    for _ in range(500):
        fold.feed(delta * 100)
    cut = time.thread_time()
    message = not_none(fold.finish())

    assert message.usage.output_tokens == 12_500
    assert time.thread_time() - cut < (cut - read) / 4


def test_an_estimate_is_not_larger_than_what_was_asked_for() -> None:
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x" * 4_000}}

    for limit, charged in ((None, 1_000), (600, 600), (2_000, 1_000)):
        fold = StreamFold(longest_output=limit)
        fold.feed(wire.sse(EVENTS[0]) + wire.sse(text))
        estimated, counted = fold.finish(), fold.finish(counted=10_000)
        assert estimated is not None
        assert counted is not None
        assert estimated.usage.output_tokens == charged
        assert counted.usage.output_tokens == (limit or 10_000)


@pytest.mark.parametrize("strange", ["a b", "a\nb", "\x00", "\ud800", "x" * 201, "ü"])
def test_an_id_that_could_not_be_written_everywhere_is_replaced(strange: str) -> None:
    first, again, other = (
        ended_as({"id": text, "model": MODEL, "usage": {"input_tokens": 1}})
        for text in (strange, strange, f"{strange}!")
    )

    assert re.fullmatch(r"[!-~]{1,100}~[0-9a-f]{32}", first.message_id)
    assert first.message_id == again.message_id != other.message_id


@pytest.mark.parametrize("strange", ["\x00", "m\n", "x" * 201])
def test_a_model_that_could_not_be_written_everywhere_is_replaced(strange: str) -> None:
    model = ended_as({"id": "msg_1", "model": strange, "usage": {}}).model

    assert re.fullmatch(r"[!-~]{1,100}~[0-9a-f]{32}", model)


def test_a_number_too_large_to_be_one_is_left_out() -> None:
    usage = {"input_tokens": 10**30, "output_tokens": 10**9}

    assert ended_as({"id": "msg_1", "model": MODEL, "usage": usage}).usage == TokenUsage(output_tokens=10**9)


def test_an_error_instead_of_a_message_is_told_apart_from_one_within() -> None:
    error = wire.error(HttpError(529, "overloaded_error"))

    assert of([error]).failed
    assert not of([EVENTS[0], error]).failed


def ended_as(message: dict[str, Any]) -> MessageUsage:
    return not_none(of([{"type": "message_start", "message": message}]).finish())
