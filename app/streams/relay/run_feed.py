"""RunFeed: what arrives of one run of another process, for all its readers here."""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from operator import itemgetter

import structlog

from app.ids import RunKey
from app.streams.port import LogEntry
from app.streams.relay.batch import EventBatch, times_of_message
from app.streams.relay.stream_reader import StreamPart
from app.streams.relay.written_run import WrittenRun
from app.streams.run_buffer import BATCH

log = structlog.get_logger(__name__)

_MAX_BYTES = 2**18
"""Bounds what is kept for readers that are behind; what they miss they read from the relay."""

_POSITION = itemgetter(0)

Fetch = Callable[["RunFeed", int], "asyncio.Future[StreamPart | None]"]
"""Read the relay after a position; None when the feed is closed meanwhile."""


@dataclass(slots=True)
class _Reader:
    position: int
    confirmed: int = 0
    """The subscription after which it has read everything from the relay."""
    version: int = -1
    """The version of the feed before it last read everything from the relay."""


@dataclass(slots=True, eq=False)
class RunFeed:
    """Receives a run's channel and keeps the latest entries until all readers have them.

    The entries in `_entries` are all that there are between the positions `_start` and `_last`. A reader
    before `_start`, or one that has not read the relay since the channel was subscribed, reads the relay.
    """

    run: RunKey
    fetch: Fetch
    readers: int = 0
    is_closed: bool = False
    fetching: set[int] = field(default_factory=set)
    """The positions after which readers wait for the relay."""
    written_here: WrittenRun | None = None
    """Where its readers continue when this process has begun to write the run."""
    _entries: list[LogEntry] = field(default_factory=list)
    _sizes: deque[tuple[int, int]] = field(default_factory=deque)
    """The number of entries and the bytes of each batch that is kept."""
    _start: int = 0
    _last: int = 0
    _confirmed: int = 0
    """How often the subscription began."""
    _times: bytes = b""
    """Those of the batch that arrives next."""
    _is_over: bool = False
    """Whether the end has arrived."""
    _version: int = 0
    """Changes with everything that a reader might have waited for."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: int = 0

    def on_subscribed(self) -> None:
        """Let all readers read the relay: something may have been missed."""
        self._confirmed += 1
        self._notify()

    def on_message(self, payload: bytes) -> None:
        if (times := times_of_message(payload)) is not None:
            self._times = times
            return
        try:
            self._receive(payload)
        except ValueError:
            # If it was an event, the next one leaves a gap, and readers read the relay.
            log.error("event_log.message_refused", run_id=self.run.run_id, size=len(payload))  # noqa: TRY400
        self._notify()

    def close(self, *, written_here: WrittenRun | None = None) -> None:
        """Let the readers end, or continue with the run's own buffer, after what has arrived."""
        self.is_closed = True
        self.written_here = written_here
        self._notify()

    async def follow(self, after: int) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        """Yield the entries after a position in batches, until `Done`, the end or `close`."""
        reader = _Reader(after)
        while True:
            if batch := self._after(reader.position):
                yield batch
                reader.position = batch[-1].position
                # Otherwise a reader that never waits would not let other tasks run.
                await asyncio.sleep(0)
            elif self.is_closed or (self._is_over and reader.position >= self._last):
                return
            elif self._must_read(reader):
                part = await self._read(reader)
                for start in range(0, len(part.entries), BATCH):
                    yield part.entries[start : start + BATCH]
                if part.is_over:
                    return
            else:
                await self._wait(reader.position)

    def _must_read(self, reader: "_Reader") -> bool:
        """Whether the relay may have what this reader lacks, and was not read since anything has changed."""
        is_behind = reader.position < self._start or reader.confirmed < self._confirmed
        return is_behind and self._confirmed > 0 and reader.version != self._version

    async def _read(self, reader: "_Reader") -> StreamPart:
        confirmed, version = self._confirmed, self._version
        # Shared with other readers: cancelling this one must not cancel it.
        part = await asyncio.shield(self.fetch(self, reader.position))
        if part is None:
            return StreamPart((), reader.position, is_over=False, more=True)
        reader.position = max(reader.position, part.last)
        if not part.more:
            reader.confirmed, reader.version = confirmed, version
        return part

    def _after(self, position: int) -> tuple[LogEntry, ...]:
        if not self._start <= position < self._last:
            return ()
        start = bisect_right(self._entries, position, key=_POSITION)
        return tuple(self._entries[start : start + BATCH])

    async def _wait(self, position: int) -> None:
        # Nothing is awaited between the checks before and the wait: no change is missed.
        self._changed.clear()
        is_current = position >= self._last
        self._waiting += is_current
        if self._waiting == self.readers:
            self._forget_up_to(self._last)
        try:
            await self._changed.wait()
        finally:
            self._waiting -= is_current

    def _receive(self, payload: bytes) -> None:
        batch = EventBatch.decode(payload, self._times)
        if batch.last <= self._last:
            return
        if batch.first != self._last + 1:
            # Readers before the gap read the relay.
            self._forget_up_to(batch.first - 1)
        self._is_over = batch.is_end
        if not batch.lines:
            # A marker: nothing to read at its position.
            return
        entries = batch.entries(after=self._last)
        self._entries += entries
        self._last = batch.last
        self._sizes.append((len(entries), len(payload)))
        while len(self._entries) > BATCH or sum(size for _, size in self._sizes) > _MAX_BYTES:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        count, _ = self._sizes.popleft()
        self._start = self._entries[count - 1].position
        del self._entries[:count]

    def _forget_up_to(self, position: int) -> None:
        self._entries.clear()
        self._sizes.clear()
        self._start = self._last = position

    def _notify(self) -> None:
        self._version += 1
        self._changed.set()
