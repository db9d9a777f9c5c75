import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.answer_usage import StreamFold
from app.gateway.answers.event_lines import EventLines
from app.gateway.answers.received import ReceivedContent
from app.gateway.answers.text_deltas import feed
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


def test_what_is_added_to_the_content_is_no_line() -> None:
    ping, content = wire.sse({"type": "ping"}), ReceivedContent()
    run = sent(delta('a "b"\\')) + sent(delta(" c\n", "thinking_delta"), compact=False)

    found = list(feed(EventLines(), content, ping + run + ping + sent(delta("d"))))

    assert [each.event for each in found] == [b"ping"] * 4
    assert content.text == 'a "b"\\ c\nd'


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
    event, content = b"event: content_block_delta\ndata: %s\n\n" % data, ReceivedContent()

    assert [each.data for each in feed(EventLines(), content, wire.sse({"type": "ping"}) + event)][2:] == [
        data
    ] * 2
    assert not content.text


@pytest.mark.parametrize("before", [b"data: {", b"event: message_delta\n", b"data: {}\r", b": a comment "])
def test_what_stands_within_another_event_is_no_event(before: bytes) -> None:
    within = sent(START) + before + sent(delta("four words are here"))

    assert folded(within) == folded(*(within[at : at + 1] for at in range(len(within))))
