import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.answer_usage import StreamFold
from app.gateway.answers.text_deltas import text_deltas
from app.simulator import wire

START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 1}}}
FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


def delta(text: str, kind: str = "text_delta") -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, FIELDS[kind]: text}}


def sent(event: dict[str, Any], *, compact: bool = True) -> bytes:
    data = json.dumps(event, separators=(",", ":") if compact else None, ensure_ascii=False)
    return f"event: {event['type']}\ndata: {data}\n\n".encode()


def folded(*pieces: bytes) -> tuple[Any, ...]:
    fold = StreamFold()
    for piece in pieces:
        fold.feed(piece)
    message = fold.finish()
    assert message is not None
    return message.usage, message.complete, fold.received(), fold.received_tokens()


@given(
    texts=st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from([*FIELDS]))),
    compact=st.booleans(),
)
def test_events_of_text_are_read_together_as_one_after_the_other(
    *, texts: list[tuple[str, str]], compact: bool
) -> None:
    whole = b"".join([sent(START), *(sent(delta(*each), compact=compact) for each in texts)])

    assert folded(whole) == folded(*(whole[at : at + 1] for at in range(len(whole))))


def test_what_follows_each_other_is_one() -> None:
    run = sent(delta('a "b"\\')) + sent(delta(" c\n", "thinking_delta"), compact=False)
    piece = wire.sse({"type": "ping"}) + run + wire.sse({"type": "ping"}) + sent(delta("d"))

    found = list(text_deltas(piece))

    assert [each.text for each in found] == ['a "b"\\ c\n', "d"]
    assert piece[found[0].start : found[0].end] == run
    assert found[0].size == len(run) - 2 * len(b"event: content_block_delta\ndata: \n\n")


@pytest.mark.parametrize(
    "data",
    [
        rb'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\x"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","text":"b"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a","n":1}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"},"usage":{}}',
    ],
)
def test_anything_else_is_left_to_the_reader_of_single_events(data: bytes) -> None:
    assert not list(text_deltas(b"event: content_block_delta\ndata: %s\n\n" % data))


@pytest.mark.parametrize("before", [b"data: {", b"event: message_delta\n", b"data: {}\r", b": a comment "])
def test_what_stands_within_another_event_is_no_event(before: bytes) -> None:
    within = sent(START) + before + sent(delta("four words are here"))

    assert folded(within) == folded(*(within[at : at + 1] for at in range(len(within))))
