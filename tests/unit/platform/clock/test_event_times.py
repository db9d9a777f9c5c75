"""Times of events: in order, whatever the host's clock does."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.events import TextDelta
from app.platform.clock.event_times import LATEST, EventTimes, milliseconds, rfc3339
from app.streams.port import LogEntry
from app.streams.run_buffer import RunBuffer

START = datetime(2026, 11, 24, 12, tzinfo=UTC)
WORD = TextDelta(message_id="m", delta="word")


class Host:
    """A host whose clock can be set, and the time that passes besides."""

    def __init__(self) -> None:
        self.clock = START
        self.elapsed_s = 1000.0

    def buffer(self) -> RunBuffer:
        return RunBuffer(EventTimes(lambda: self.clock, lambda: self.elapsed_s))


def times_of(buffer: RunBuffer) -> list[int]:
    return [entry.at - milliseconds(START) for entry in buffer.entries]


@pytest.mark.parametrize("jump", [timedelta(hours=-3), timedelta(days=400)])
def test_a_clock_that_jumps_changes_no_time(jump: timedelta) -> None:
    host = Host()
    buffer = host.buffer()
    for _ in range(3):
        buffer.append(WORD)
        host.elapsed_s += 0.25
        host.clock += jump
    assert times_of(buffer) == [0, 250, 500]


def test_no_event_is_earlier_than_one_of_another_process() -> None:
    host = Host()
    buffer = host.buffer()
    buffer.insert_earlier([LogEntry(1, WORD, milliseconds(START) + 900), LogEntry(2, WORD)])
    buffer.append(WORD)
    host.elapsed_s += 1.5
    buffer.append(WORD)
    assert times_of(buffer)[2:] == [900, 1500]


def test_an_event_may_have_been_produced_before() -> None:
    host = Host()
    buffer = host.buffer()
    buffer.append(WORD, at=milliseconds(START) - 7000)
    buffer.append(WORD)
    assert times_of(buffer) == [-7000, 0]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (
            datetime(2026, 11, 24, 13, 0, 0, 7999, tzinfo=timezone(timedelta(hours=1))),
            "2026-11-24T12:00:00.007Z",
        ),
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00.000Z"),
        (datetime.max.replace(tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_rounded_down_to_milliseconds(at: datetime, text: str) -> None:
    assert rfc3339(milliseconds(at)) == text
    assert datetime.fromisoformat(text) == at.replace(microsecond=at.microsecond // 1000 * 1000)
    assert milliseconds(at) <= LATEST
