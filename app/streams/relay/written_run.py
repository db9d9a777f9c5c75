"""WrittenRun: a run that this process writes, and how much of it the relay has."""

import time
from dataclasses import dataclass, field

from app.events import Done
from app.ids import RunKey
from app.streams.event_json import to_json
from app.streams.relay.batch import EventBatch
from app.streams.relay.connection import PREFIX
from app.streams.relay.stream_reader import stream_name
from app.streams.run_buffer import RunBuffer

LIFETIME_S = 24 * 3600
"""Expiry of a stream after its last event; only matters after a crash."""
GRACE_S = 60
"""How long a deleted run stays on the relay, and here while the relay is unavailable."""

_EVENTS_PER_BATCH = 500
_BYTES_PER_BATCH = 2**18


@dataclass(slots=True, eq=False)
class WrittenRun:
    """A run that this process writes. Its buffer is the truth, the relay a copy."""

    run: RunKey
    attempt: int
    buffer: RunBuffer
    base: int = 0
    """Only earlier attempts have events up to this position."""
    relayed: int = 0
    """The last position that the relay's stream is believed to have."""
    deleted_at: float | None = None
    is_fenced: bool = False
    waits_since: float | None = None
    """Since when the relay lacks something of it, by the monotonic clock."""
    prefix: str = PREFIX
    """Of its stream's name."""
    stream: str = field(init=False)

    def __post_init__(self) -> None:
        self.stream = stream_name(self.run, self.prefix)

    def next_batch(self) -> EventBatch | None:
        """What the relay lacks, up to a bounded size; None if it lacks nothing."""
        lines: list[bytes] = []
        times: list[int] = []
        size, first, is_end = 0, 0, False
        for position, event, at in self.buffer.after(self.relayed, _EVENTS_PER_BATCH):
            # Positions jump between attempts, but not within a batch.
            if lines and (size >= _BYTES_PER_BATCH or position != first + len(lines)):
                break
            first = first or position
            line = to_json(event).encode()
            lines.append(line)
            times.append(at)
            size += len(line)
            is_end = isinstance(event, Done)
        if lines:
            return EventBatch(first, tuple(lines), is_end, tuple(times) if all(times) else ())
        if self.deleted_at is not None and self.relayed < self.end_marker:
            return EventBatch(self.end_marker, is_end=True)
        return None

    def delete(self) -> None:
        """End its readers here; the relay gets what it lacks, and a marker."""
        self.deleted_at = time.monotonic()
        self.buffer.end()

    @property
    def end_marker(self) -> int:
        return self.buffer.last + 1

    @property
    def is_complete(self) -> bool:
        """Whether the relay has all of a run that is over, or need not get it any more."""
        if self.deleted_at is None:
            return self.is_fenced
        is_late = time.monotonic() > self.deleted_at + GRACE_S
        return self.is_fenced or is_late or self.relayed >= self.end_marker
