"""RunEventReader: a run's events from the event log while it runs, and from the database afterwards."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial

from app.events import Done, Queued, RunError
from app.executors.port import FIRST_ATTEMPT
from app.ids import RunKey
from app.platform.db import Database
from app.runs.events.codec import decode_events, decode_joined, joined
from app.runs.events.endings import RunEndings
from app.runs.events.terminal import (
    LAST_POSITION,
    POSITIONS_PER_ATTEMPT,
    stored_end,
    time_of_first,
    with_positions,
)
from app.runs.records import RunRecord, StoredEvents
from app.runs.repository import find_run, last_stored_position, stored_events
from app.streams.port import EventLog, LogEntry


class RunEventReader:
    """Reads the events of runs; no reader affects a run."""

    def __init__(self, database: Database, event_log: EventLog, endings: RunEndings) -> None:
        self._database = database
        self._log = event_log
        self._endings = endings

    async def read(self, run: RunRecord, *, apart: int = 0) -> Sequence[LogEntry]:
        """The events of a run so far, as `joined`."""
        logged: Sequence[LogEntry] = () if run.finished else await self._log.read(run.key)
        if logged and logged[0].position <= POSITIONS_PER_ATTEMPT:
            return joined(logged, apart=apart)
        decode = partial(decode_joined, apart=apart)
        entries = [entry async for batch in self._stored(run.key, 0, decode) for entry in batch]
        last = entries[-1].position if entries else 0
        entries += joined([entry for entry in logged if entry.position > last], apart=apart)
        return entries or _first_events(run)

    async def follow(
        self, run: RunKey, record: RunRecord | None, *, after: int
    ) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Yield the events after a position in batches until `Done`.

        `record` is what the database has of the run; None if this process executes it.
        """
        if record is not None and after == 0 and (first := _first_events(record)):
            yield first
            after = first[-1].position
        if record is None or not record.finished:
            if record is not None and record.attempt > FIRST_ATTEMPT:
                # What was stored when it was parked.
                async with aclosing(self._stored(run, after)) as batches:
                    async for batch in batches:
                        yield batch
                        after = batch[-1].position
            with self._endings.watching(run):
                async with aclosing(self._logged(run, after)) as batches:
                    async for batch in batches:
                        yield batch
                        after = batch[-1].position
                        if isinstance(batch[-1].event, Done):
                            return
        async with aclosing(self._stored(run, after)) as batches:
            async for batch in batches:
                yield batch

    async def _logged(self, run: RunKey, after: int) -> AsyncGenerator[Sequence[LogEntry], None]:
        """The entries of the log, and those from before a later attempt which only the database has."""
        async with aclosing(self._log.follow(run, after=after)) as batches:
            async for batch in batches:
                first = batch[0].position
                if first > POSITIONS_PER_ATTEMPT and first > after + 1:
                    async with aclosing(self._stored(run, after)) as earlier:
                        async for stored in earlier:
                            if missed := [entry for entry in stored if entry.position < first]:
                                yield missed
                yield batch
                after = batch[-1].position

    async def has_end_before(self, run: RunRecord, position: int) -> bool:
        """Whether a reader that has received the event at this position has received the run's `Done`."""
        if not run.finished or position >= LAST_POSITION:
            return run.finished
        async with self._database.snapshot() as reader:
            last = await last_stored_position(reader, run.key)
            if last is None or position < last:
                return False
            # Then its positions depend on the reader.
            return not _is_only_end(await stored_events(reader, run.key, max_bytes=1))

    async def _stored(
        self,
        run: RunKey,
        after: int,
        decode: Callable[[Sequence[StoredEvents]], list[LogEntry]] = decode_events,
    ) -> AsyncGenerator[Sequence[LogEntry], None]:
        """The stored events after a position, in batches; if they are deleted, the end of the run."""
        async with self._database.snapshot() as reader:
            only_end = _is_only_end(await stored_events(reader, run, max_bytes=1))
        position = 0 if only_end else after
        while True:
            async with self._database.snapshot() as reader:
                rows = await stored_events(reader, run, after=position)
            if not rows:
                # Deleted before this reader came, or while it reads.
                if end := _placed(await self._end_of_deleted(run), max(position, after)):
                    yield end
                return
            entries = decode(rows)
            if only_end:
                if end := _placed(entries, after):
                    yield end
                return
            yield [entry for entry in entries if entry.position > position]
            if isinstance(entries[-1].event, Done):
                return
            position = rows[-1].last_position

    async def _end_of_deleted(self, run: RunKey) -> Sequence[LogEntry]:
        """The end of a run whose events are deleted; empty if they are not."""
        async with self._database.read() as reader:
            record = await find_run(reader, run)
        return () if record is None or record.events_deleted_at is None else stored_end(record)


def _is_only_end(first: Sequence[StoredEvents]) -> bool:
    """Whether the first row of a run is its end: its process died, and its other events are lost."""
    events = decode_events(first)
    return bool(events) and events[0].event == RunError(error="internal")


def _placed(end: Sequence[LogEntry], after: int) -> Sequence[LogEntry]:
    """The end of a run without other events, for a reader that has received those up to a position.

    At the last positions, after whatever that reader has; at the first ones for a reader that has nothing.
    """
    before = LAST_POSITION - len(end) if after else 0
    placed = [entry._replace(position=before + n) for n, entry in enumerate(end, start=1)]
    return [entry for entry in placed if entry.position > after]


def _first_events(run: RunRecord) -> Sequence[LogEntry]:
    """`queued`, before the process that will execute the run publishes it at the same position."""
    if run.status != "queued" or run.queued_position is None:
        return ()
    return with_positions([Queued(position=run.queued_position)], after=0, at=time_of_first(run))
