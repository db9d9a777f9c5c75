"""The events of ended runs are deleted before their requests and answers, and readers still get an end."""

import asyncio
from contextlib import aclosing

import pytest
from sqlalchemy import text

from app.events import AssistantFinal, ClientEvent, Done, RunError, TextDelta
from app.ids import RunKey
from app.platform.clock.clock import host_time
from app.platform.db import Database
from app.platform.settings import Settings, SettingsError
from app.platform.storage.records import Retention
from app.platform.storage.service import StorageQuota
from app.requests.outcome import FinalUsage
from app.runs.deletion.repository import lock_runs_with_old_events
from app.runs.deletion.service import RunDeletion
from app.runs.events.codec import encode_events
from app.runs.events.endings import RunEndings
from app.runs.events.reader import RunEventReader
from app.runs.events.terminal import LAST_POSITION, terminal_events, with_positions
from app.runs.repository import finish_run, stored_request
from app.streams.memory import MemoryEventLog
from app.streams.port import LogEntry
from tests.entries import AnyTime
from tests.factories import a_final
from tests.integration.conversations import conversations_over
from tests.integration.run_process import record_of
from tests.integration.test_storage import KB, an_accepted_run, kept

USAGE = FinalUsage(prompt_tokens=7)
LONG = "y" * 300 * KB
"""Longer than what is read of stored events at once."""
DONE = Done(usage=USAGE, finish_reason="stop")
ANSWER = AssistantFinal(content="the answer", structured_output={"n": 1})
LAST = [AnyTime(LAST_POSITION - 1, ANSWER), AnyTime(LAST_POSITION, DONE)]


async def an_ended_run(
    database: Database, name: str, *, days_ago: int = 2, ok: bool = True, lost: bool = False
) -> RunKey:
    """A run with two long deltas and its end; of one that is `lost` with its process only the end is left."""
    run = await an_accepted_run(database, size=KB, run_id=name)
    final = a_final(
        name,
        content=ANSWER.content,
        structured_output=ANSWER.structured_output,
        error=None if ok else "internal" if lost else "timeout",
        finish_reason="stop" if ok else "timeout",
        usage=USAGE,
    )
    names = () if lost else ("m1", "m2")
    deltas: list[ClientEvent] = [TextDelta(message_id=name, delta=LONG) for name in names]
    events = encode_events(with_positions([*deltas, *terminal_events(final)], after=0))
    async with database.transaction() as tx:
        assert await finish_run(tx, run, attempt=0, final=final, report=None, events=events)
        await tx.execute(
            text("UPDATE runs SET ended_at = now() - make_interval(days => :days) WHERE run_id = :run_id"),
            {"days": days_ago, "run_id": name},
        )
        await tx.execute(
            text("UPDATE run_events SET at = at - make_interval(days => :days) WHERE run_id = :run_id"),
            {"days": days_ago, "run_id": name},
        )
    return run


def deletion(
    database: Database, *, days: int | None = None, days_of_events: int | None = None
) -> RunDeletion:
    return RunDeletion(
        database,
        storage=StorageQuota(database, None),
        delete_unused=conversations_over(database).delete_unused,
        by_default=Retention(days, days_of_events),
    )


def a_reader(database: Database) -> RunEventReader:
    log = MemoryEventLog()
    return RunEventReader(database, log, RunEndings(database, log, is_active=lambda _: False))


async def replay(database: Database, run: RunKey, *, after: int = 0) -> list[LogEntry]:
    reader, record = a_reader(database), await record_of(database, run)
    return [entry async for batch in reader.follow(run, record, after=after) for entry in batch]


async def test_old_events_are_deleted_and_request_and_answer_stay(database: Database) -> None:
    old, new = await an_ended_run(database, "old"), await an_ended_run(database, "new", days_ago=0)
    running = await an_accepted_run(database, run_id="running")
    before = await kept(database, old.account_id)
    contents = deletion(database, days=30, days_of_events=1)

    assert await deletion(database, days=30).delete_old_events() == 0
    assert (await contents.delete_old_events(), await contents.delete_old_events()) == (1, 0)

    assert before - (await kept(database, old.account_id)) > 600 * KB
    record = await record_of(database, old)
    assert record.final is not None
    assert (record.final.content, record.contents_deleted_at) == ("the answer", None)
    assert record.events_deleted_at is not None
    async with database.read() as reader:
        request = await stored_request(reader, old)
        assert request is not None
        assert len(request.text) > KB
    for untouched in (new, running):
        assert (await record_of(database, untouched)).events_deleted_at is None
    assert len(await replay(database, new)) == 4


async def test_a_replay_without_events_has_the_answer_and_the_end(database: Database) -> None:
    good, bad = await an_ended_run(database, "good"), await an_ended_run(database, "bad", ok=False)
    whole = await replay(database, good)
    await deletion(database, days_of_events=1).delete_old_events()
    error = [RunError(error="timeout"), Done(usage=USAGE, finish_reason="timeout")]

    assert [entry.event for entry in whole][2:] == [ANSWER, DONE]
    for after in (2, 3):
        assert await replay(database, good, after=after) == LAST
    assert [entry.position for entry in await replay(database, good)] == [1, 2]
    assert [entry.event for entry in await replay(database, bad)] == error
    read = await a_reader(database).read(await record_of(database, good))
    assert [entry.event for entry in read] == [ANSWER, DONE]


async def test_a_reader_of_an_end_without_other_events_learns_that_nothing_follows(
    database: Database,
) -> None:
    deleted = await an_ended_run(database, "deleted")
    await deletion(database, days_of_events=1).delete_old_events()
    lost = await an_ended_run(database, "lost", ok=False, lost=True)

    for run in (deleted, lost):
        record, reader = await record_of(database, run), a_reader(database)
        received = await replay(database, run, after=77)
        assert [entry.position for entry in received] == [LAST_POSITION - 1, LAST_POSITION]
        assert [entry.event.type for entry in await replay(database, run, after=LAST_POSITION - 1)] == [
            "done"
        ]
        assert await replay(database, run, after=LAST_POSITION) == []
        known = [await reader.has_end_before(record, at) for at in (77, LAST_POSITION - 1, LAST_POSITION)]
        assert known == [False, False, True]


async def test_a_replay_during_which_the_events_are_deleted_ends(database: Database) -> None:
    run = await an_ended_run(database, "run")
    record = await record_of(database, run)
    seen: list[LogEntry] = []
    async with aclosing(a_reader(database).follow(run, record, after=0)) as batches:
        async for batch in batches:
            if not seen:
                await deletion(database, days_of_events=1).delete_old_events()
            seen += batch

    assert [entry.position for entry in seen] == [1, LAST_POSITION - 1, LAST_POSITION]
    assert [entry.event for entry in seen][1:] == [ANSWER, DONE]


async def test_a_reader_that_has_everything_gets_nothing_more(database: Database) -> None:
    run = await an_ended_run(database, "run")

    assert await replay(database, run, after=4) == []


async def test_contents_are_deleted_with_the_events_or_after_them(database: Database) -> None:
    run = await an_ended_run(database, "run")
    events = deletion(database, days_of_events=1)
    await events.delete_old_events()
    first = (await record_of(database, run)).events_deleted_at

    await deletion(database, days=1).delete_old()
    both = await an_ended_run(database, "both")
    await deletion(database, days=1).delete_old()

    record = await record_of(database, run)
    assert (record.events_deleted_at, record.contents_deleted_at is not None) == (first, True)
    assert (await record_of(database, both)).events_deleted_at is not None
    assert await events.delete_old_events() == 0
    # A replay that began before: no answer is made of what is left.
    assert [entry.event for entry in await replay(database, both)] == [DONE]


async def test_two_servers_share_a_sweep_that_reads_only_what_is_left(database: Database) -> None:
    for number in range(25):
        await an_ended_run(database, f"run-{number}")
    async with database.write() as tx:
        await tx.execute(
            text(
                """
                INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request_hash,
                                  created_at, ended_at, events_deleted_at)
                SELECT account_id, 'swept-' || number, api_key_id, graph_id, model, 'succeeded', '',
                       now(), now() - interval '9 days', now()
                  FROM runs, generate_series(1, 20000) AS number WHERE run_id = 'run-0'
                """
            )
        )
        await tx.execute(text("ANALYZE runs"))
    one, other = (deletion(database, days_of_events=1) for _ in range(2))

    deleted = [*await asyncio.gather(one.delete_old_events(), other.delete_old_events())]
    deleted.append(await one.delete_old_events())

    assert sum(deleted) == 25
    read = text("SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'runs'")
    async with database.transaction() as tx:
        before = (await tx.execute(read)).scalar_one()
        assert await lock_runs_with_old_events(tx, Retention(events_days=1), until=host_time(), most=20) == []
        assert (await tx.execute(read)).scalar_one() - before <= 50


@pytest.mark.parametrize(("days", "days_of_events"), [(30, 31), (1, 2)])
def test_events_cannot_be_kept_longer_than_their_run(days: int, days_of_events: int) -> None:
    settings = {"RUNTALLY_RETENTION_DAYS": days, "RUNTALLY_EVENTS_RETENTION_DAYS": days_of_events}

    with pytest.raises(
        SettingsError, match=r"EVENTS_RETENTION_DAYS: must not exceed RUNTALLY_RETENTION_DAYS"
    ):
        Settings.load(_env_file=None, **settings)
    for fitting in ({**settings, "RUNTALLY_RETENTION_DAYS": 0}, {**settings, "RUNTALLY_RETENTION_DAYS": 31}):
        assert Settings.load(_env_file=None, **fitting).events_retention_days == days_of_events
