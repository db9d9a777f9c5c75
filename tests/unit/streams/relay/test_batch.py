"""Batches of events, as they are stored on the relay and published."""

import pytest

from app.events import TextDelta
from app.streams.event_json import to_json
from app.streams.port import LogEntry
from app.streams.relay.batch import EventBatch, times_of_message

WORDS = [TextDelta(message_id="m", delta=text) for text in ("a\nb", "\u2028 é", "")]
AT = 1_764_000_000_000
LINES = tuple(to_json(word).encode() for word in WORDS)


@pytest.mark.parametrize("is_end", [False, True])
def test_a_batch_is_decoded_as_it_was_encoded(*, is_end: bool) -> None:
    batch = EventBatch(7, LINES, is_end=is_end)
    decoded = EventBatch.decode(batch.encode())
    assert (decoded, decoded.last) == (batch, 9)
    assert decoded.entries() == tuple(LogEntry(7 + index, word) for index, word in enumerate(WORDS))


def test_the_times_of_a_batch_are_beside_it() -> None:
    batch = EventBatch(7, LINES, times=(AT, AT, AT + 300))
    assert batch.encode() == EventBatch(7, LINES).encode()
    decoded = EventBatch.decode(batch.encode(), batch.encode_times())
    assert [entry.at for entry in decoded.entries(after=7)] == [AT, AT + 300]


def test_releases_without_times_ignore_their_message() -> None:
    encoded = EventBatch(7, LINES, times=(AT, AT, AT)).encode_times()
    message = b"+0\n" + encoded
    # They drop what ends at a position they have; a reader has at least position 0.
    assert EventBatch.decode(message).last == 0
    assert times_of_message(message) == encoded
    assert times_of_message(EventBatch(7, LINES).encode()) is None


@pytest.mark.parametrize(
    "times",
    [
        b"6 %d 0 0" % AT,
        b"7 %d 0" % AT,
        b"7 %d 0 0 0" % AT,
        b"7 %d 5 -5" % AT,
        b"7 0 0 0",
        b"7 -%d 0 0" % AT,
        b"7 %d 0 %d" % (AT, 2**63),
        b"7 %s 0 0" % (b"9" * 5000),
        b"7",
        b"",
        b" ",
        b"7 x 0 0",
        b"7 \xff 0 0",
    ],
)
def test_times_that_are_not_those_of_the_batch_are_unknown(times: bytes) -> None:
    decoded = EventBatch.decode(EventBatch(7, LINES).encode(), times)
    assert [entry.at for entry in decoded.entries()] == [0, 0, 0]


@pytest.mark.parametrize(("after", "count"), [(0, 3), (6, 3), (7, 2), (9, 0), (99, 0)])
def test_entries_that_are_known_are_left_out(after: int, count: int) -> None:
    entries = EventBatch(7, LINES).entries(after=after)
    assert [entry.position for entry in entries] == [7, 8, 9][3 - count :]


@pytest.mark.parametrize("is_end", [False, True])
def test_a_marker_has_a_position_and_no_entries(*, is_end: bool) -> None:
    marker = EventBatch.decode(EventBatch(5, is_end=is_end).encode())
    assert (marker.first, marker.last, marker.is_end, marker.entries()) == (5, 5, is_end, ())


@pytest.mark.parametrize("payload", [b"", b"5", b"+", b"+-5", b"?5", b"+5 ", b"+5x\n{}", "+\u0665".encode()])
def test_other_heads_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"^"):
        EventBatch.decode(payload)


@pytest.mark.parametrize("line", [b"", b"{}", b"null", b"[" * 5000, b"\xff"])
def test_lines_that_are_no_events_are_refused(line: bytes) -> None:
    batch = EventBatch.decode(b"+1\n" + line)
    with pytest.raises(ValueError, match=r"^"):
        batch.entries()
