from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.errors import InvalidResponse
from runtally.protocol.event_stream import EventStreamDecoder, Frame

STREAM = (
    "retry: 3000\n\n"
    ": alive\r\n"
    "id: 1\revent: a\rdata: one\u2028 \x85\U0001f600\r\r"
    "id: 2\r\ndata: two\r\ndata:\r\ndata:  lines\r\nunknown: x\r\n\r\n"
    "event: left out\n\n"
    "data: no id of its own\n\n"
    "id: 3\ndata: cut"
).encode()
FRAMES = [
    Frame("", "", "", 3000),
    Frame("", "", "", None),
    Frame("1", "a", "one\u2028 \x85\U0001f600", None),
    Frame("2", "", "two\n\n lines", None),
    Frame("2", "", "no id of its own", None),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_frames_do_not_depend_on_how_the_bytes_are_divided(cuts: list[int]) -> None:
    decoder = EventStreamDecoder()
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(places)]

    assert [frame for chunk in chunks for frame in decoder.feed(chunk)] == FRAMES


@pytest.mark.parametrize(
    "chunk", [b"data: " + b"x" * 100, b"x" * 100, b"event: abc\n" * 10, b"data: a\n: b\n" * 10]
)
def test_an_event_has_a_limit(chunk: bytes) -> None:
    decoder = EventStreamDecoder(max_event_bytes=1000)

    with pytest.raises(InvalidResponse, match="more than 1000 bytes"):
        [frame for _ in range(11) for frame in decoder.feed(chunk)]


def test_many_small_events_have_none() -> None:
    decoder = EventStreamDecoder(max_event_bytes=50)

    frames = [frame for _ in range(100) for frame in decoder.feed(b": alive\n\nid: 1\ndata: x\n\n")]

    assert len(frames) == 200
