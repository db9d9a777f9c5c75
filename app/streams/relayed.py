"""RelayedEventLog: the event log of several processes.

What this process writes is numbered and read in its memory, as in `MemoryEventLog`; the relay carries a
copy to the readers of other processes. No run waits for the relay.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple

import structlog

from app.events import ClientEvent, Done
from app.ids import RunKey
from app.platform.background import forever
from app.platform.clock.clock import host_time
from app.platform.clock.event_times import EventTimes
from app.streams.port import LogEntry, WriterFenced
from app.streams.relay.client import Relay, RelayPart
from app.streams.relay.connection import EventLogUnavailable, RelayConnection
from app.streams.relay.feeds import RunFeeds
from app.streams.relay.flusher import Flusher
from app.streams.relay.run_feed import RunFeed
from app.streams.relay.stream_reader import read_whole_stream, stream_name
from app.streams.relay.written_run import WrittenRun
from app.streams.run_buffer import RunBuffer

CLOSED_RUNS_REMEMBERED = 4096
"""How many runs are remembered by key that this process must not write any more."""

_RESUME_S = 2.0
"""How long a resumed run waits for its earlier events."""
_FLUSH_CHECK_S = 0.005
_CLOSE_S = 1.0
"""How long `aclose` waits until the relay has everything."""

log = structlog.get_logger(__name__)


class _Part(NamedTuple):
    """What this process writes to a part of the relay, and what it follows there."""

    connection: RelayConnection
    flusher: Flusher
    feeds: RunFeeds


class RelayedEventLog:
    """Holds the events of the runs that this process writes, and follows those of other processes."""

    def __init__(self, relay: Relay, now: Callable[[], datetime] = host_time) -> None:
        """Needs a running event loop. The relay is closed by its owner, after the log.

        `now`: the clock of the events.
        """
        self._now = now
        self._relay = relay
        self._written: dict[RunKey, WrittenRun] = {}
        self._deleted: dict[RunKey, None] = {}
        self._fenced: dict[RunKey, None] = {}
        """Runs that a later attempt writes."""
        self._parts = {part.connection.prefix: self._open_part(part, relay.check_s) for part in relay.parts}
        self._closed = False
        steps = [step for part in self._parts.values() for step in (part.flusher.step, part.feeds.step)]
        self._tasks = [asyncio.create_task(forever(step, 0, name="event log")) for step in steps]

    @property
    def lag_s(self) -> float:
        """For how long the relay has lacked the oldest event that it lacks; 0 if it has all."""
        return max(part.flusher.lag_s for part in self._parts.values())

    @property
    def problem(self) -> str | None:
        """Why the relay does not carry all events now; None if it does."""
        return self._relay.problem

    async def append(self, run: RunKey, event: ClientEvent, *, at: int | None = None) -> int:
        """Append an event and return its position; never waits.

        Raises `WriterFenced` after `delete` or when a later attempt writes the run, `RunLogClosed` after
        `Done`, `EventLogUnavailable` only after `aclose`.
        """
        self._require_open()
        written = self._written.get(run)
        if written is None:
            if run in self._deleted or run in self._fenced:
                raise WriterFenced
            written = self._start_writing(self._new_run(run))
        position = written.buffer.append(event, at=at)
        self._parts[written.prefix].flusher.flush(written)
        return position

    async def resume(self, run: RunKey, *, attempt: int, after: int) -> None:
        """See the port. Without the relay the events of earlier attempts are added when it is back."""
        self._require_open()
        if run in self._deleted:
            raise WriterFenced
        if (written := self._written.get(run)) is None:
            written = self._new_run(run, attempt)
        elif attempt <= written.attempt:
            return
        # This process may have written an earlier attempt, and not know yet that others have followed.
        written.attempt = attempt
        written.base = written.buffer.last = max(written.buffer.last, after)
        try:
            async with asyncio.timeout(_RESUME_S):
                await self._claim(written)
        except WriterFenced:
            written.is_fenced = True
            self.on_fenced(written)
            raise
        except (TimeoutError, EventLogUnavailable):
            log.warning("event_log.resumed_alone", run_id=run.run_id, attempt=attempt)
        self._fenced.pop(run, None)
        self._start_writing(written)
        self._parts[written.prefix].flusher.flush(written)

    async def follow(
        self,
        run: RunKey,
        *,
        after: int = 0,
    ) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        """Yield the entries after a position, until `Done`, wherever the run is written meanwhile."""
        if self._closed or run in self._deleted:
            return
        position = after
        source: WrittenRun | RunFeed | None = self._source(run)
        while source is not None:
            async with aclosing(self._read_source(source, position)) as batches:
                async for batch in batches:
                    yield batch
                    position = batch[-1].position
                    if isinstance(batch[-1].event, Done):
                        return
            source = self._next_source(source)

    def stop_following(self, run: RunKey) -> None:
        """End the readers of a run of another process."""
        self._part(run).feeds.close(run)

    def abandon(self, run: RunKey) -> None:
        if (written := self._written.get(run)) is not None:
            written.is_fenced = True
            self.on_fenced(written)

    async def hand_over(self, run: RunKey, *, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while (written := self._written.get(run)) is not None and time.monotonic() < deadline:
            if not written.buffer.after(written.relayed, 1):
                break
            await asyncio.sleep(_FLUSH_CHECK_S)
        self.abandon(run)

    async def park(self, run: RunKey, *, within_s: float) -> None:
        """As `hand_over`: the readers follow the relay."""
        await self.hand_over(run, within_s=within_s)

    async def read(self, run: RunKey) -> tuple[LogEntry, ...]:
        """Return everything held of a run; raises `EventLogUnavailable` if it is written elsewhere."""
        if (written := self._written.get(run)) is not None:
            return tuple(written.buffer.entries)
        self._require_open()
        if run in self._deleted:
            return ()
        return (await read_whole_stream(self._part(run).connection, run)).entries

    async def delete(self, run: RunKey) -> None:
        """Delete a run: a marker ends its readers elsewhere, and the relay drops it after `GRACE_S`."""
        if (written := self._written.pop(run, None)) is None:
            if run in self._deleted or run in self._fenced:
                return
            written = self._new_run(run)
        _remember(self._deleted, run)
        self._part(run).feeds.close(run)
        written.delete()
        self._parts[written.prefix].flusher.flush(written)

    async def erase(self, run: RunKey) -> None:
        """See the port; raises `EventLogUnavailable`."""
        connection = self._part(run).connection
        await connection.delete([stream_name(run, connection.prefix)])

    async def ping(self) -> None:
        """Raise `EventLogUnavailable` when the relay does not answer."""
        self._require_open()
        await self._relay.ping()

    async def aclose(self) -> None:
        """Send what the relay lacks, as far as it answers in time; readers end."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for part in self._parts.values():
            part.feeds.close_all()
        for written in self._written.values():
            written.buffer.end()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(*(part.flusher.drain() for part in self._parts.values()))
        except TimeoutError:
            log.warning("event_log.not_flushed", runs=sum(len(part.flusher) for part in self._parts.values()))
        self._written.clear()

    def on_fenced(self, written: WrittenRun) -> None:
        """Stop writing a run that a later attempt writes; its readers follow that."""
        if self._written.get(written.run) is written:
            del self._written[written.run]
        if written.deleted_at is None:
            _remember(self._fenced, written.run)
        written.buffer.end()

    def on_new_epoch(self) -> None:
        """Let the readers look for what they have missed."""
        for part in self._parts.values():
            part.feeds.read_again()

    async def _claim(self, written: WrittenRun) -> None:
        """Take the run over with everything that the relay has of it."""
        held = 0
        while True:
            part = await read_whole_stream(self._parts[written.prefix].connection, written.run, after=held)
            if part.is_over:
                raise WriterFenced
            written.buffer.insert_earlier(part.entries)
            written.relayed = held = part.last
            written.base = max(written.base, held)
            written.buffer.last = written.base
            if written.buffer.after(held, 1):
                # The relay has lost events that an earlier attempt wrote here: the flusher sends them.
                return
            refusal = await self._parts[written.prefix].flusher.claim(written)
            if written.is_fenced or (refusal is not None and refusal.is_fenced):
                raise WriterFenced
            if refusal is None:
                return

    def _source(self, run: RunKey) -> WrittenRun | RunFeed:
        return self._written.get(run) or self._part(run).feeds.find(run)

    async def _read_source(
        self, source: WrittenRun | RunFeed, after: int
    ) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        if isinstance(source, RunFeed):
            self._part(source.run).feeds.add_reader(source)
        followed = source if isinstance(source, RunFeed) else source.buffer
        try:
            async with aclosing(followed.follow(after)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            if isinstance(source, RunFeed):
                self._part(source.run).feeds.remove_reader(source)

    def _next_source(self, source: WrittenRun | RunFeed) -> WrittenRun | RunFeed | None:
        """Where a reader continues after the end of what it has followed."""
        if isinstance(source, RunFeed):
            return source.written_here
        return self._source(source.run) if source.is_fenced and not self._closed else None

    def _start_writing(self, written: WrittenRun) -> WrittenRun:
        self._written[written.run] = written
        self._parts[written.prefix].feeds.close(written.run, written_here=written)
        return written

    def _new_run(self, run: RunKey, attempt: int = 0) -> WrittenRun:
        buffer = RunBuffer(EventTimes(self._now))
        return WrittenRun(run, attempt, buffer, prefix=self._part(run).connection.prefix)

    def _open_part(self, part: RelayPart, check_s: float) -> "_Part":
        flusher = Flusher(part.connection, self, check_s=check_s)
        part.subscriptions.subscribe(part.connection.claims, flusher)
        return _Part(part.connection, flusher, RunFeeds(part.connection, part.subscriptions))

    def _part(self, run: RunKey) -> "_Part":
        return self._parts[self._relay.part(f"{run.account_id}:{run.run_id}").connection.prefix]

    def _require_open(self) -> None:
        if self._closed:
            raise EventLogUnavailable


def _remember(runs: dict[RunKey, None], run: RunKey) -> None:
    runs[run] = None
    if len(runs) > CLOSED_RUNS_REMEMBERED:
        del runs[next(iter(runs))]
