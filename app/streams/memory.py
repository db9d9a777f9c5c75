"""MemoryEventLog: the event log of a single process, one buffer per run."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime

from app.errors import Unavailable
from app.events import ClientEvent
from app.ids import RunKey
from app.platform.clock.clock import host_time
from app.platform.clock.event_times import EventTimes
from app.streams.port import LogEntry
from app.streams.run_buffer import RunBuffer, RunLogClosed

DELETED_RUNS_REMEMBERED = 4096
"""How many deleted runs are remembered by key, so that late readers end instead of waiting."""


class EventLogClosed(Unavailable):
    """The event log is closed."""


class MemoryEventLog:
    """Holds the events of this process's runs until they are deleted.

    The buffer of a run is freed when it was deleted and its last reader leaves.
    """

    def __init__(self, now: Callable[[], datetime] = host_time) -> None:
        """`now`: the clock of the events."""
        self._now = now
        self._buffers: dict[RunKey, RunBuffer] = {}
        self._deleted: dict[RunKey, None] = {}
        self._parked: set[RunKey] = set()
        self._closed = False

    def __len__(self) -> int:
        """Count the runs held, including those that readers wait for."""
        return len(self._buffers)

    async def append(self, run: RunKey, event: ClientEvent, *, at: int | None = None) -> int:
        """Append an event and return its position.

        Raises `RunLogClosed` after `Done` or `delete`, `EventLogClosed` after `aclose`.
        """
        if self._closed:
            raise EventLogClosed
        if run in self._deleted:
            raise RunLogClosed
        return self._buffer(run).append(event, at=at)

    async def resume(self, run: RunKey, *, attempt: int, after: int) -> None:  # noqa: ARG002 - one process has no other writer to fence
        """Number the next events from after this position."""
        self._parked.discard(run)
        buffer = self._buffer(run)
        buffer.last = max(buffer.last, after)

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
        try:
            async with aclosing(buffer.follow(after)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            self._drop_if_unused(run, buffer)

    def stop_following(self, run: RunKey) -> None:
        if buffer := self._buffers.pop(run, None):
            buffer.end()

    def abandon(self, run: RunKey) -> None:
        """End the readers of a run: there is no way to follow another process."""
        self.stop_following(run)

    async def hand_over(self, run: RunKey, *, within_s: float) -> None:  # noqa: ARG002 - the port's signature
        self.abandon(run)

    async def park(self, run: RunKey, *, within_s: float) -> None:  # noqa: ARG002 - the port's signature
        """Free what is held of a run once its readers have left, unless it is resumed before."""
        if (buffer := self._buffers.get(run)) is not None:
            self._parked.add(run)
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

    async def erase(self, run: RunKey) -> None:
        await self.delete(run)

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

    def _buffer(self, run: RunKey) -> RunBuffer:
        if (buffer := self._buffers.get(run)) is None:
            buffer = self._buffers[run] = RunBuffer(EventTimes(self._now))
        return buffer

    def _drop_if_unused(self, run: RunKey, buffer: RunBuffer) -> None:
        """Free the buffer of a run that is parked, or has no events, when its last reader leaves."""
        is_unused = run in self._parked or not buffer.entries
        if is_unused and not buffer.readers and self._buffers.get(run) is buffer:
            del self._buffers[run]
            self._parked.discard(run)
