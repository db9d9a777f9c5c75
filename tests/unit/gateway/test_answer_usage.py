import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.answer_usage import UNNAMED, MessageUsage, StreamFold, parse_message
from app.simulator import wire
from app.simulator.script import HttpError, Reply, Text, Thinking, ToolUse
from app.usage.records import UNKNOWN_MODEL, ProviderCall, TokenUsage, estimated_tokens
from tests.factories import not_none

MODEL = "claude-haiku-5-5"
CALL = ProviderCall(provider_request_id="req_1")
REPLY = Reply(
    [Thinking("hm… let me see"), Text("Grüße aus 東京 🗼 "), ToolUse("clock", {"zone": "東京", "n": [1, 2]})],
    usage={"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 7},
    final_usage={"output_tokens": 99},
    message_id="msg_1",
)
EVENTS = wire.events(REPLY, model=MODEL)
LAST_NUMBER = len(EVENTS) - 2
RAW_JSON = [True, False]


def framed(event: dict[str, Any], *, ends: str = "\n", named: bool = True, ascii_only: bool = True) -> bytes:
    name = f"event: {event['type']}{ends}" if named else ""
    return f"{name}data: {json.dumps(event, ensure_ascii=ascii_only)}{ends}{ends}".encode()


def folded(*chunks: bytes) -> StreamFold:
    fold = StreamFold(CALL)
    for chunk in chunks:
        fold.feed(chunk)
    return fold


def of(events: list[dict[str, Any]]) -> StreamFold:
    return folded(*map(wire.sse, events))


def summary(fold: StreamFold) -> tuple[Any, ...]:
    """Everything a fold knows at the end, but the time of day."""
    message = not_none(fold.finish())
    names = (
        *("message_id", "model", "usage", "complete", "stop_reason"),
        *("call", "whole_blocks", "output_estimated"),
    )
    return (*(getattr(message, name) for name in names), fold.received())


def ended(*events: dict[str, Any], usage: dict[str, Any] | None = None) -> MessageUsage:
    """The message of a stream that says these events after it began."""
    message = {"id": "msg_1", "model": MODEL, "usage": {"input_tokens": 10, "output_tokens": 1}}
    start = {"type": "message_start", "message": message if usage is None else {**message, "usage": usage}}
    return not_none(of([start, *events]).finish())


def delta(reason: str | None = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def text(piece: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}


def test_a_whole_stream_says_what_the_api_said() -> None:
    assert summary(of(EVENTS)) == (
        "msg_1",
        MODEL,
        TokenUsage(input_tokens=10, output_tokens=99, cache_read_tokens=7),
        True,
        "tool_use",
        CALL,
        3,
        False,
        'hm… let me seeGrüße aus 東京 🗼 {"zone": "\\u6771\\u4eac", "n": [1, 2]}',
    )


@given(
    cuts=st.sets(st.integers(0, 3000)),
    ends=st.sampled_from(["\n", "\r\n", "\r"]),
    named=st.booleans(),
    ascii_only=st.booleans(),
    events=st.integers(1, len(EVENTS)),
)
def test_any_chunking_gives_the_same_result(
    *, cuts: set[int], ends: str, named: bool, ascii_only: bool, events: int
) -> None:
    parts = [framed(event, ends=ends, named=named, ascii_only=ascii_only) for event in EVENTS[:events]]
    whole = b"".join(parts)
    edges = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]

    chunked = folded(*(whole[start:end] for start, end in pairwise(edges)))

    assert summary(chunked) == summary(of(EVENTS[:events]))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_byte_by_byte_the_news_come_with_the_byte_that_ends_the_line(*, ends: str, named: bool) -> None:
    parts = [framed(event, ends=ends, named=named, ascii_only=False) for event in EVENTS]
    whole = b"".join(parts)
    fold = StreamFold(CALL)

    news = [at for at in range(len(whole)) if fold.feed(whole[at : at + 1])]

    # The line ends with its CR, whatever follows.
    starts = len(parts[0]) - 2 * len(ends)
    last = sum(map(len, parts[: LAST_NUMBER + 1])) - 2 * len(ends)
    assert news == [starts, last]
    assert summary(fold) == summary(of(EVENTS))


@pytest.mark.parametrize("raw_json", RAW_JSON)
@pytest.mark.parametrize("length", range(1, len(EVENTS) + 1))
def test_a_stream_may_end_after_any_event(*, length: int, raw_json: bool) -> None:
    fold = folded(*(framed(event, ascii_only=not raw_json) for event in EVENTS[:length]))
    message = not_none(fold.finish())

    deltas = [event["delta"] for event in EVENTS[:length] if event["type"] == "content_block_delta"]
    received = "".join(map(wire.output_of, deltas))
    complete = length > LAST_NUMBER
    assert fold.received() == received
    assert (message.complete, message.output_estimated) == (complete, not complete)
    assert message.usage.output_tokens == (99 if complete else max(1, estimated_tokens(received)))
    assert (message.usage.input_tokens, message.usage.cache_read_tokens) == (10, 7)
    stops = [event for event in EVENTS[:length] if event["type"] == "content_block_stop"]
    assert message.whole_blocks == len(stops)
    assert message.is_turn == (complete or bool(stops))


def test_before_it_begins_there_is_no_message() -> None:
    fold = folded(b"event: ping\ndata: {}\n\n")

    assert (fold.message, fold.finish(), fold.received()) == (None, None, "")


@pytest.mark.parametrize("event", [0, LAST_NUMBER])
def test_a_line_that_lacks_only_its_end_counts(event: int) -> None:
    whole = b"".join(map(wire.sse, EVENTS[: event + 1]))

    assert summary(folded(whole.rstrip())) == summary(folded(whole))


def test_a_counted_message_is_believed_but_never_below_what_the_api_said() -> None:
    fold = of(EVENTS[:-2])

    counts = [fold.finish(counted=count) for count in (0, 1, 12)]

    assert [message and message.usage.output_tokens for message in counts] == [1, 1, 12]
    assert all(message and message.output_estimated for message in counts)


def test_a_count_changes_nothing_of_a_complete_message() -> None:
    fold = of(EVENTS)

    assert fold.finish(counted=5) is fold.message


def test_usage_grows_with_every_delta_and_the_last_number_counts() -> None:
    message = ended(delta(None, output_tokens=20), delta(None, output_tokens=50), delta(output_tokens=70))

    assert (message.usage.output_tokens, message.complete) == (70, True)


def test_a_message_that_grew_and_was_cut_counts_what_it_grew_to() -> None:
    message = ended(text("hi"), delta(None, output_tokens=50))

    assert (message.usage.output_tokens, message.complete, message.output_estimated) == (50, False, True)


def test_what_follows_the_last_number_corrects_it_and_reopens_nothing() -> None:
    fold = of([*EVENTS[:-1]])

    assert fold.feed(wire.sse(delta(None, output_tokens=120)))
    message = not_none(fold.finish())

    assert (message.usage.output_tokens, message.complete, message.stop_reason) == (120, True, "tool_use")


def test_the_model_of_a_fallback_served() -> None:
    iterations = [
        {"type": "message", "model": MODEL},
        {"type": "fallback_message", "model": "claude-opus-5-5"},
    ]

    assert ended(delta(iterations=iterations)).model == "claude-opus-5-5"
    assert ended(usage={"iterations": iterations}).model == "claude-opus-5-5"
    assert ended(delta(iterations=[{"type": "advisor_message", "model": "claude-opus-5-5"}])).model == MODEL


@pytest.mark.parametrize("iterations", [None, [], {}, "x", [None], ["x"], [{"model": 5}], [{"model": ""}]])
def test_iterations_nobody_understands_leave_the_model(iterations: Any) -> None:
    assert ended(delta(iterations=iterations)).model == MODEL


@pytest.mark.parametrize("at", range(1, len(EVENTS) - 1))
def test_an_error_event_leaves_the_message_partial(at: int) -> None:
    failure = wire.sse(wire.error(HttpError(529, "overloaded_error")))

    fold = folded(*map(wire.sse, EVENTS[:at]), failure)

    message = not_none(fold.finish())
    assert message.complete == (at > LAST_NUMBER)
    assert summary(fold) == summary(of(EVENTS[:at]))


MALFORMED = [
    b"data: {",
    b"data:",
    b"data: null",
    b"data: [1]",
    b'data: "message_delta"',
    b"data: \xff\xfe",
    b"data: " + b"[" * 200_000,
    b'data: {"type": ["message_delta"]}',
    b'data: {"type": "message_start"}',
    b'data: {"type": "message_start", "message": {"id": "msg_2", "model": "m", "usage": {}}}',
    b'event: content_block_delta\ndata: {"type": "content_block_delta"',
    b'event: content_block_delta\ndata: {"delta": 3}',
    b"event: content_block_delta\ndata: 7",
    b'data: {"type": "content_block_delta", "delta": {"text": 5, "thinking": null, "partial_json": ["x"]}}',
    b'data: {"type": "message_delta"}',
    b'data: {"type": "message_delta", "delta": null, "usage": null}',
    b'data: {"type": "message_delta", "delta": [], "usage": [1]}',
    b'data: {"type": "message_delta", "delta": {"stop_reason": {}}, "usage": {"output_tokens": "many"}}',
    b'data: {"type": "message_delta", "delta": {}, "usage": {"output_tokens": -5, "input_tokens": NaN}}',
    b'data: {"type": "message_delta", "delta": {}, "usage": {"cache_creation": 3, "server_tool_use": "x"}}',
    b'data: {"type": "message_delta", "usage": {"cache_creation": {"ephemeral_5m_input_tokens": "x"}}}',
    b"retry: soon",
    b": a comment",
    b"\x00\x01",
]


@pytest.mark.parametrize("at", [1, 4, len(EVENTS) - 2])
@pytest.mark.parametrize("line", MALFORMED, ids=lambda line: line[:40].decode("latin-1"))
def test_what_nobody_understands_is_skipped_and_the_rest_is_billed(line: bytes, at: int) -> None:
    frames = [wire.sse(event) for event in EVENTS]

    whole = folded(*frames[:at], line + b"\n\n", *frames[at:])
    cut = folded(*frames[:at], line + b"\n\n")

    assert summary(whole)[:-1] == summary(of(EVENTS))[:-1]
    assert summary(cut) == summary(of(EVENTS[:at]))


def test_a_message_without_a_model_gets_a_name_without_a_price() -> None:
    fold = folded(
        b'data: {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}}\n'
    )

    message = not_none(fold.finish())

    assert (message.message_id, message.model, message.usage.input_tokens) == ("msg_1", UNKNOWN_MODEL, 3)


def test_a_message_without_an_id_goes_by_its_requests() -> None:
    start = b'data: {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3}}}\n'
    nameless = StreamFold()

    message = not_none(folded(start).finish())

    assert (message.message_id, message.usage.input_tokens) == ("req_1", 3)
    assert nameless.feed(start)
    assert nameless.message is not None
    assert (nameless.message.message_id, nameless.message.usage.input_tokens) == (UNNAMED, 3)


def test_data_in_several_lines_is_one_event_and_a_byte_order_mark_is_none_of_it() -> None:
    def spread(event: dict[str, Any]) -> bytes:
        lines = json.dumps(event, indent=1).split("\n")
        return b"".join(f"data: {line}\n".encode() for line in lines) + b"\n"

    assert summary(folded(b"\xef\xbb\xbf", *map(spread, EVENTS))) == summary(of(EVENTS))
    assert summary(folded(b"\xef\xbb\xbf" + b"".join(map(wire.sse, EVENTS)))) == summary(of(EVENTS))


def test_an_event_is_what_its_data_says_whatever_its_name() -> None:
    misnamed = b"event: content_block_delta\ndata: " + json.dumps(delta(output_tokens=77)).encode() + b"\n\n"
    message = not_none(folded(wire.sse(EVENTS[0]), misnamed).message)

    assert (message.complete, message.usage.output_tokens) == (True, 77)


@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([*map(wire.sse, EVENTS), *MALFORMED]))))
def test_no_bytes_break_the_fold(chunks: list[bytes]) -> None:
    fold = folded(*chunks)

    message = fold.finish()

    assert (message is None) == (fold.message is None)
    assert isinstance(fold.received(), str)


def test_a_body_that_was_not_streamed_is_complete() -> None:
    message = not_none(parse_message(json.dumps(wire.message(REPLY, model=MODEL)).encode(), call=CALL))

    streamed = not_none(of(EVENTS).message)
    assert (message.usage, message.model, message.message_id) == (streamed.usage, MODEL, "msg_1")
    assert (message.complete, message.stop_reason, message.whole_blocks) == (True, "tool_use", 3)
    assert (message.call.provider_request_id, message.output_estimated) == ("req_1", False)


def test_a_whole_body_is_served_by_a_fallback() -> None:
    iterations = [{"type": "fallback_message", "model": "claude-opus-5-5"}]
    body = {"id": "msg_1", "model": MODEL, "usage": {"iterations": iterations}}

    message = not_none(parse_message(json.dumps(body).encode(), call=ProviderCall()))

    assert (message.model, message.whole_blocks) == ("claude-opus-5-5", 0)


def test_a_whole_body_is_billed_as_far_as_it_is_understood() -> None:
    body = b'{"usage": {"input_tokens": 3, "output_tokens": "x", "cache_creation": 1}, "content": 5}'

    message = not_none(parse_message(body, call=CALL))

    assert (message.message_id, message.model, message.usage) == (
        "req_1",
        UNKNOWN_MODEL,
        TokenUsage(input_tokens=3),
    )


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"null", b"[]", b"3", b"\xff", b"[" * 200_000),
        *(b'{"id": "msg_1"}', b'{"id": "msg_1", "usage": []}', b'{"type": "error", "error": {}}'),
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)
def test_a_body_that_is_no_message_is_none(body: bytes) -> None:
    assert parse_message(body, call=CALL) is None
