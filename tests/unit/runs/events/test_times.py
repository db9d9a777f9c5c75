"""Times of events that a release without times has produced."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.errors import Unavailable
from app.events import Done, Queued, TextDelta
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.clock.event_times import milliseconds
from app.requests.outcome import FinalUsage
from app.runs.events.times import KnownTimes
from app.streams.port import LogEntry
from tests.factories import a_record, an_unused_database

RUN = RunKey(AccountId(new_uuid()), RunId("run-1"))
CREATED = datetime(2026, 11, 24, 12, tzinfo=UTC)
WORD = TextDelta(message_id="m", delta="word")
DONE = Done(usage=FinalUsage(), finish_reason="stop")
BEGINNING = [LogEntry(1, Queued(position=1)), LogEntry(2, WORD)]
END = [LogEntry(3, WORD), LogEntry(4, DONE)]


def after_creation(entries: object) -> list[int]:
    assert isinstance(entries, list)
    return [entry.at - milliseconds(CREATED) for entry in entries]


def known(*, started_at: datetime, ended_at: datetime | None = None) -> KnownTimes:
    record = replace(a_record(RUN), created_at=CREATED, started_at=started_at, ended_at=ended_at)
    return KnownTimes(an_unused_database(), RUN, record)


async def test_they_are_those_of_the_runs_row() -> None:
    times = known(started_at=CREATED + timedelta(seconds=1), ended_at=CREATED + timedelta(seconds=2))

    assert after_creation(await times.of(BEGINNING)) == [0, 1000]
    assert after_creation(await times.of(END)) == [1000, 2000]


async def test_they_are_not_before_a_time_that_is_known() -> None:
    times = known(started_at=CREATED + timedelta(seconds=1), ended_at=CREATED + timedelta(seconds=9))
    later = milliseconds(CREATED) + 5000

    assert after_creation(await times.of([LogEntry(1, WORD, later), LogEntry(2, WORD)])) == [5000, 5000]
    await times.of([LogEntry(3, WORD, later + 1)])
    assert after_creation(await times.of(END)) == [5001, 9000]


async def test_events_with_times_need_no_database() -> None:
    entries = [LogEntry(1, WORD, 5), LogEntry(2, DONE, 6)]
    assert await KnownTimes(an_unused_database(), RUN, None).of(entries) is entries


async def test_without_the_database_what_the_reader_knows_of_the_row_decides() -> None:
    times = known(started_at=CREATED + timedelta(seconds=1))

    assert after_creation(await times.of(END)) == [1000, 1000]
    with pytest.raises(Unavailable):
        await KnownTimes(an_unused_database(), RUN, None).of(END)
