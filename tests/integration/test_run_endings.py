"""Readers of runs whose process ended them in the database without publishing their end."""

import asyncio
from datetime import UTC, datetime

from app.events import Done, RunError, TextDelta
from app.ids import RunKey
from app.platform.clock.event_times import milliseconds
from app.platform.db import Database
from app.requests.outcome import FinalUsage
from app.runs.events.codec import decode_events, encode_events
from app.runs.events.endings import RunEndings
from app.runs.events.reader import RunEventReader
from app.runs.events.terminal import terminal_events, with_positions
from app.runs.repository import finish_run, stored_events
from app.streams.memory import MemoryEventLog
from app.streams.port import LogEntry
from tests.entries import AnyTime
from tests.factories import a_final
from tests.integration.run_process import a_run_elsewhere
from tests.integration.statements import noted
from tests.patience import PATIENCE_S

FINAL = a_final(error="timeout")


async def end_elsewhere(database: Database, run: RunKey) -> None:
    events = encode_events(with_positions(terminal_events(FINAL), after=0))
    async with database.transaction() as tx:
        assert await finish_run(tx, run, attempt=0, final=FINAL, report=None, events=events)


async def test_a_run_ends_with_its_last_event_if_the_databases_clock_is_behind(database: Database) -> None:
    run = await a_run_elsewhere(database, name="ahead")
    ahead = milliseconds(datetime.now(UTC)) + 3_600_123
    words = [TextDelta(message_id="m", delta=word) for word in ("one", "two")]
    entries = [LogEntry(n, word, ahead + n) for n, word in enumerate(words)]
    end = with_positions(terminal_events(FINAL), after=1)

    async with database.transaction() as tx:
        events = encode_events([*entries, *end])
        ended_at = await finish_run(tx, run, attempt=0, final=FINAL, report=None, events=events)
    async with database.read() as reader:
        stored = decode_events(await stored_events(reader, run))

    assert ended_at is not None
    assert milliseconds(ended_at) == ahead + 1
    assert stored == [*entries, *(entry._replace(at=ahead + 1) for entry in end)]


async def read_all(reader: RunEventReader, run: RunKey) -> list[LogEntry]:
    return [entry async for batch in reader.follow(run, None, after=0) for entry in batch]


async def test_readers_get_the_stored_end_of_a_run_that_published_none(database: Database) -> None:
    runs = [await a_run_elsewhere(database, name=run_id) for run_id in ("a", "b", "c")]
    log = MemoryEventLog()
    endings = RunEndings(database, log, is_active=lambda run: run == runs[2])
    reader = RunEventReader(database, log, endings)
    readers = [asyncio.create_task(read_all(reader, run)) for run in (runs[0], *runs)]
    await asyncio.sleep(0)
    for run in (runs[0], runs[2]):
        await end_elsewhere(database, run)
    with noted(database) as statements:
        await endings.check()
    # One for all of them; the run of this process is not looked up.
    assert len(statements) == 1
    done = Done(usage=FinalUsage(), finish_reason="error")
    expected = [AnyTime(1, RunError(error="timeout")), AnyTime(2, done)]
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*readers[:2]) == [expected, expected]
    assert not any(task.done() for task in readers[2:])

    await end_elsewhere(database, runs[1])
    await endings.check()
    assert await readers[2] == expected
    readers[3].cancel()
    await asyncio.wait(readers)
    with noted(database) as statements:
        await endings.check()
    assert statements == []
