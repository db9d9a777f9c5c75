"""RunEventReader: a run's events from the event log while it runs, and from the database afterwards."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from app.db import Database
from app.events import Done, Queued, RunError
from app.ids import RunKey
from app.runs.events.codec import decode_events
from app.runs.events.endings import RunEndings
from app.runs.events.terminal import terminal_events, with_positions
from app.runs.records import RunRecord
from app.runs.repository import find_run, stored_events
from app.streams.port import EventLog, LogEntry


class RunEventReader:
    """Reads the events of runs; no reader affects a run."""

    def __init__(self, database: Database, event_log: EventLog, endings: RunEndings) -> None:
        self._database = database
        self._log = event_log
        self._endings = endings

    async def read(self, run: RunRecord) -> Sequence[LogEntry]:
        """The events of a run so far."""
        if not run.finished and (entries := await self._log.read(run.key)):
            return entries
        entries = [entry async for batch in self._stored(run.key, 0) for entry in batch]
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
            with self._endings.watching(run):
                async with aclosing(self._log.follow(run, after=after)) as batches:
                    async for batch in batches:
                        yield batch
                        after = batch[-1].position
                        if isinstance(batch[-1].event, Done):
                            return
        async with aclosing(self._stored(run, after)) as batches:
            async for batch in batches:
                yield batch

    async def _stored(self, run: RunKey, after: int) -> AsyncGenerator[Sequence[LogEntry], None]:
        """The stored events after a position, in batches; if they are deleted, the end of the run."""
        async with self._database.snapshot() as reader:
            first = decode_events(await stored_events(reader, run, max_bytes=1))
        # If the process of a run died and its events are lost, only its end is stored. The end then
        # gets the next positions after the reader's last one.
        only_end = bool(first) and first[0].event == RunError(error="internal")
        position = 0 if only_end else after
        while True:
            async with self._database.snapshot() as reader:
                rows = await stored_events(reader, run, after=position)
            if not rows:
                # Deleted before this reader came, or while it reads.
                if end := await self._end_of_deleted(run, max(position, after)):
                    yield end
                return
            entries = decode_events(rows)
            if only_end:
                yield with_positions([entry.event for entry in entries], after=after)
                return
            yield [entry for entry in entries if entry.position > position]
            if isinstance(entries[-1].event, Done):
                return
            position = rows[-1].last_position

    async def _end_of_deleted(self, run: RunKey, after: int) -> Sequence[LogEntry]:
        """The end of a run whose events are deleted, at the next positions; empty if they are not."""
        async with self._database.read() as reader:
            record = await find_run(reader, run)
        if record is None or record.final is None or record.events_deleted_at is None:
            return ()
        events = terminal_events(record.final, has_content=record.contents_deleted_at is None)
        return with_positions(events, after=after)


def _first_events(run: RunRecord) -> Sequence[LogEntry]:
    """`queued`, before the process that will execute the run publishes it at the same position."""
    if run.status != "queued" or run.queued_position is None:
        return ()
    return with_positions([Queued(position=run.queued_position)], after=0)
