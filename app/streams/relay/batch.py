"""EventBatch: neighbouring events of a run as one entry of its stream and one message of its channel.

Their times are beside it, because earlier releases parse every line of a batch as an event: in a field of the
stream's entry, and in the channel in a message just before that of the batch.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, repeat
from operator import sub

from app.platform.clock.event_times import LATEST
from app.streams.event_json import from_json
from app.streams.port import LogEntry

_OPEN, _END = b"+", b"."
_TIMES = b"+0\n"
"""How a message with times begins. Earlier releases ignore it: for them it is a batch at position 0."""

_UNKNOWN = 0


@dataclass(frozen=True)
class EventBatch:
    """Events at consecutive positions.

    Without lines it is a marker at its position: of the end of a run, or of the attempt that writes next.
    """

    first: int
    lines: tuple[bytes, ...] = ()
    """The events, as `to_json` wrote them."""
    is_end: bool = False
    """Whether it is the marker of the end, or contains `Done`."""
    times: tuple[int, ...] = ()
    """When each event was produced, in milliseconds since 1970; empty: unknown."""

    @cached_property
    def last(self) -> int:
        """The position of its last event, or of the marker."""
        return self.first + max(len(self.lines), 1) - 1

    def encode(self) -> bytes:
        return b"\n".join((b"%s%d" % (_END if self.is_end else _OPEN, self.first), *self.lines))

    def encode_times(self) -> bytes:
        """Its first position, the time of its first event, and what has passed between each and the next.

        Empty for a batch without times.
        """
        if not self.times:
            return b""
        gaps = map(sub, self.times[1:], self.times)
        return " ".join(map(str, (self.first, self.times[0], *gaps))).encode()

    @classmethod
    def decode(cls, payload: bytes, times: bytes = b"") -> "EventBatch":
        """Raises `ValueError` for a payload that `encode` has not written; ignores times of another batch."""
        head, *lines = payload.split(b"\n")
        if head[:1] not in {_OPEN, _END} or not head[1:].isdigit():
            raise ValueError(head[:40])
        first = int(head[1:])
        return cls(first, tuple(lines), head[:1] == _END, _decode_times(times, first, len(lines)))

    def entries(self, *, after: int = 0) -> tuple[LogEntry, ...]:
        """The events after a position; raises `ValueError` for lines that are no events."""
        skipped = max(0, after - self.first + 1)
        times = self.times or repeat(_UNKNOWN, len(self.lines))
        timed = zip(self.lines, times, strict=True)
        return tuple(
            LogEntry(position, from_json(line), at)
            for position, (line, at) in enumerate(islice(timed, skipped, None), self.first + skipped)
        )


def times_of_message(payload: bytes) -> bytes | None:
    """What `encode_times` wrote, if this is the message with the times of the next batch; otherwise None."""
    return payload.removeprefix(_TIMES) if payload.startswith(_TIMES) else None


def _decode_times(encoded: bytes, first: int, count: int) -> tuple[int, ...]:
    """The times of so many events from this position; empty if these are not theirs."""
    if not encoded:
        return ()
    try:
        position, *differences = map(int, encoded.split(b" "))
    except ValueError:
        return ()
    if position != first or len(differences) != count or min(differences, default=-1) < 0:
        return ()
    times = tuple(accumulate(differences))
    return times if times[0] > 0 and times[-1] <= LATEST else ()
