"""When events were produced: what the database stores of it, and what is known of events without a time."""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from app.errors import NotFound, Unavailable
from app.events import AssistantFinal, ClientEvent, Done, Queued, RunError
from app.ids import RunKey
from app.platform.clock.event_times import milliseconds
from app.platform.db import Database
from app.runs.records import RunRecord
from app.runs.repository import find_run
from app.streams.port import LogEntry

_AT = itemgetter(2)


class KnownTimes:
    """The times of a run's events for one reader.

    Releases before this one store and relay events without a time. These get the next earlier one that the
    run's row has, so that it is the same for every reader.
    """

    def __init__(self, database: Database, run: RunKey, record: RunRecord | None) -> None:
        """`record`: what the reader has of the row, if anything."""
        self._database = database
        self._run = run
        self._record = record
        self._last = 0

    async def of(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        """The next entries of the run, each with a time; raises `Unavailable` if that is in the row alone."""
        if all(map(_AT, entries)):
            self._last = entries[-1].at if entries else self._last
            return entries
        row = await self._row([entry.event for entry in entries if not entry.at])
        return [self._timed(entry, row) for entry in entries]

    def _timed(self, entry: LogEntry, row: RunRecord) -> LogEntry:
        self._last = entry.at or max(self._last, _time_of_row(entry.event, row))
        return entry._replace(at=self._last)

    async def _row(self, events: Iterable[ClientEvent]) -> RunRecord:
        record = self._record
        if record is not None and all(_has_time(record, event) for event in events):
            return record
        try:
            async with self._database.read() as reader:
                found = await find_run(reader, self._run)
        except Unavailable:
            if record is None:
                raise
            return record
        if found is None:
            raise NotFound
        self._record = found
        return found


def time_of_first(run: RunRecord) -> int:
    """When a run was accepted, which is when its event `queued` was produced."""
    return milliseconds(run.created_at)


def time_of_end(run: RunRecord) -> int:
    """When a run ended, which is when its last events were produced."""
    return milliseconds(run.ended_at or run.created_at)


def _has_time(row: RunRecord, event: ClientEvent) -> bool:
    match event:
        case Queued():
            return True
        case AssistantFinal() | RunError() | Done():
            return row.ended_at is not None
        case _:
            return row.started_at is not None


def _time_of_row(event: ClientEvent, row: RunRecord) -> int:
    match event:
        case Queued():
            return time_of_first(row)
        case AssistantFinal() | RunError() | Done():
            return time_of_end(row)
        case _:
            return milliseconds(row.started_at or row.created_at)
