"""Readers of a run that this process executes; none of them needs the database."""

from collections.abc import Sequence

from app.events import ClientEvent, Done, TextDelta
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.requests.outcome import FinalUsage
from app.runs.events.endings import RunEndings
from app.runs.events.reader import RunEventReader
from app.streams.memory import MemoryEventLog
from tests.entries import AnyTime
from tests.factories import a_record, an_unused_database

RUN = RunKey(AccountId(new_uuid()), RunId("run-1"))
EVENTS: list[ClientEvent] = [
    *(TextDelta(message_id="m", delta=word) for word in ("one", "two", "three")),
    Done(usage=FinalUsage(), finish_reason="stop"),
]


async def a_log(events: Sequence[ClientEvent]) -> MemoryEventLog:
    log = MemoryEventLog()
    for event in events:
        await log.append(RUN, event)
    return log


def a_reader(log: MemoryEventLog) -> RunEventReader:
    database = an_unused_database()
    return RunEventReader(database, log, RunEndings(database, log, is_active=lambda _: True))


async def test_the_events_so_far_are_read_from_the_log() -> None:
    log = await a_log(EVENTS[:2])

    assert list(await a_reader(log).read(a_record(RUN))) == [AnyTime(1, EVENTS[0]), AnyTime(2, EVENTS[1])]


async def test_a_follower_gets_what_follows_its_position_and_ends_with_done() -> None:
    batches = a_reader(log := await a_log(EVENTS[:2])).follow(RUN, None, after=1)

    first = await anext(batches)
    for event in EVENTS[2:]:
        await log.append(RUN, event)
    rest = [entry async for batch in batches for entry in batch]

    assert list(first) == [AnyTime(2, EVENTS[1])]
    assert rest == [AnyTime(3, EVENTS[2]), AnyTime(4, EVENTS[3])]
