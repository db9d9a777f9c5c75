"""RunBuffer: the events of one run in memory, and the readers that wait for more."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterable
from operator import itemgetter

from app.errors import Conflict
from app.events import ClientEvent, Done
from app.platform.clock.event_times import EventTimes
from app.streams.port import LogEntry

BATCH = 500
"""The maximum number of entries in a batch, for readers that start late in a long run."""

_POSITION = itemgetter(0)


class RunLogClosed(Conflict):
    """The run has ended; no event can be appended to it."""


class RunBuffer:
    """Numbers the events of one run.

    Each reader keeps a reference to it, so a reader that is behind can finish reading a deleted run.
    """

    __slots__ = ("_changed", "_last_at", "_times", "ended", "entries", "last", "readers")

    def __init__(self, times: EventTimes | None = None, *, after: int = 0) -> None:
        """The first event gets the position after `after`; `times`: of the host's clock unless given."""
        self.entries: list[LogEntry] = []
        self.last = after
        """The position before the next event."""
        self.readers = 0
        self.ended = False
        self._times = times or EventTimes()
        self._last_at = 0
        self._changed = asyncio.Event()

    def append(self, event: ClientEvent, *, at: int | None = None) -> int:
        """Append an event and return its position; raises `RunLogClosed`. `at`: see the port."""
        if self.ended:
            raise RunLogClosed
        self.last += 1
        # Another process, whose clock may differ, has written the events of an earlier attempt.
        self._last_at = max(self._last_at, self._times.read() if at is None else at)
        self.entries.append(LogEntry(self.last, event, self._last_at))
        self.ended = isinstance(event, Done)
        self._changed.set()
        return self.last

    def insert_earlier(self, entries: Iterable[LogEntry]) -> None:
        """Add entries of earlier attempts, whose positions are below those of this one."""
        held = {entry.position for entry in self.entries}
        self.entries += [entry for entry in entries if entry.position not in held]
        self.entries.sort(key=_POSITION)
        self.last = max(self.last, self.entries[-1].position if self.entries else 0)
        self._last_at = max([self._last_at, *(entry.at for entry in self.entries)])
        self._changed.set()

    def after(self, position: int, limit: int = BATCH) -> tuple[LogEntry, ...]:
        start = bisect_right(self.entries, position, key=_POSITION)
        return tuple(self.entries[start : start + limit])

    def end(self) -> None:
        """Let the readers end when they have read what is there."""
        self.ended = True
        self._changed.set()

    async def follow(self, after: int) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        """Yield the entries after a position in batches, until the buffer ends."""
        self.readers += 1
        position = after
        try:
            while True:
                if batch := self.after(position):
                    yield batch
                    position = batch[-1].position
                    # With a writer that never waits, this loop would never let other tasks run.
                    await asyncio.sleep(0)
                elif self.ended:
                    return
                else:
                    # Nothing is awaited between the check above and the wait: no entry is missed.
                    self._changed.clear()
                    await self._changed.wait()
        finally:
            self.readers -= 1
