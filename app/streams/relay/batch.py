"""EventBatch: neighbouring events of a run as one entry of its stream and one message of its channel."""

from dataclasses import dataclass
from functools import cached_property

from app.streams.event_json import from_json
from app.streams.port import LogEntry

_OPEN, _END = b"+", b"."


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

    @cached_property
    def last(self) -> int:
        """The position of its last event, or of the marker."""
        return self.first + max(len(self.lines), 1) - 1

    def encode(self) -> bytes:
        """As `decode` reads it."""
        return b"\n".join((b"%s%d" % (_END if self.is_end else _OPEN, self.first), *self.lines))

    @classmethod
    def decode(cls, payload: bytes) -> "EventBatch":
        """Raises `ValueError` for anything that `encode` has not written."""
        head, *lines = payload.split(b"\n")
        if head[:1] not in {_OPEN, _END} or not head[1:].isdigit():
            raise ValueError(head[:40])
        return cls(int(head[1:]), tuple(lines), is_end=head[:1] == _END)

    def entries(self, *, after: int = 0) -> tuple[LogEntry, ...]:
        """The events after a position; raises `ValueError` for lines that are no events."""
        skipped = max(0, after - self.first + 1)
        return tuple(
            LogEntry(position, from_json(line))
            for position, line in enumerate(self.lines[skipped:], self.first + skipped)
        )
