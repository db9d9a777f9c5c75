"""MemoryEventLog: the event log of a single process, one list per run."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from app.errors import Conflict, Unavailable
from app.events import ClientEvent, Done
from app.ids import RunKey
from app.streams.port import LogEntry

BATCH = 500
"""The maximum number of entries in a batch, for readers that start late in a long run."""

DELETED_RUNS_REMEMBERED = 4096
"""How many deleted runs are remembered by key, so that late readers end instead of waiting."""


class RunLogClosed(Conflict):
    """The run has ended; no event can be appended to it."""


class EventLogClosed(Unavailable):
    """The event log is closed."""


@dataclass(slots=True)
class _RunBuffer:
    """The events of one run and its readers."""

    entries: list[LogEntry] = field(default_factory=list)
    offset: int = 0
    """The position before the first entry."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    readers: int = 0
    ended: bool = False

    def end(self) -> None:
        self.ended = True
        self.changed.set()


class MemoryEventLog:
    """Holds the events of this process's runs until they are deleted.

    Each reader keeps a reference to its run's buffer, so it can finish reading a deleted run; the
    buffer is freed when the last reader leaves.
    """

    def __init__(self) -> None:
        self._buffers: dict[RunKey, _RunBuffer] = {}
        self._deleted: dict[RunKey, None] = {}
        self._closed = False

    def __len__(self) -> int:
        """Count the runs held, including those that readers wait for."""
        return len(self._buffers)

    async def append(self, run: RunKey, event: ClientEvent) -> int:
        """Append an event and return its position.

        Raises `RunLogClosed` after `Done` or `delete`, `EventLogClosed` after `aclose`.
        """
        if self._closed:
            raise EventLogClosed
        if run in self._deleted:
            raise RunLogClosed
        buffer = self._buffer(run)
        if buffer.ended:
            raise RunLogClosed
        position = buffer.offset + len(buffer.entries) + 1
        buffer.entries.append(LogEntry(position, event))
        if isinstance(event, Done):
            buffer.ended = True
        buffer.changed.set()
        return position

    async def resume(self, run: RunKey, *, after: int) -> None:
        """Number a run's events from after this position, unless some are held."""
        buffer = self._buffer(run)
        if not buffer.entries:
            buffer.offset = after

    async def follow(
        self,
        run: RunKey,
        *,
        after: int = 0,
    ) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        """Yield the entries after a position in batches, until `Done`."""
        if self._closed or run in self._deleted:
            return
        buffer = self._buffer(run)
        buffer.readers += 1
        position = after
        try:
            while True:
                start = max(0, position - buffer.offset)
                if batch := tuple(buffer.entries[start : start + BATCH]):
                    yield batch
                    position = batch[-1].position
                    # With a writer that never waits, this loop would never let other tasks run.
                    await asyncio.sleep(0)
                elif buffer.ended:
                    return
                else:
                    # Nothing is awaited between the check above and the wait: no entry is missed.
                    buffer.changed.clear()
                    await buffer.changed.wait()
        finally:
            buffer.readers -= 1
            self._drop_if_unused(run, buffer)

    async def read(self, run: RunKey) -> tuple[LogEntry, ...]:
        """Return everything held of a run."""
        buffer = self._buffers.get(run)
        return tuple(buffer.entries) if buffer else ()

    async def delete(self, run: RunKey) -> None:
        """Delete a run's events; readers that are behind finish reading first."""
        if buffer := self._buffers.pop(run, None):
            buffer.end()
        self._deleted[run] = None
        if len(self._deleted) > DELETED_RUNS_REMEMBERED:
            del self._deleted[next(iter(self._deleted))]

    async def ping(self) -> None:
        """Raise `EventLogClosed` after `aclose`."""
        if self._closed:
            raise EventLogClosed

    async def aclose(self) -> None:
        """Delete everything; readers read to the end of what was there."""
        self._closed = True
        for buffer in self._buffers.values():
            buffer.end()
        self._buffers.clear()

    def _buffer(self, run: RunKey) -> _RunBuffer:
        if (buffer := self._buffers.get(run)) is None:
            buffer = self._buffers[run] = _RunBuffer()
        return buffer

    def _drop_if_unused(self, run: RunKey, buffer: _RunBuffer) -> None:
        """Free the buffer of a run without events when its last reader leaves."""
        if not buffer.entries and not buffer.readers and self._buffers.get(run) is buffer:
            del self._buffers[run]
