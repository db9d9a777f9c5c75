"""The contract of every event log."""

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import Conflict, Unavailable
from app.events import ClientEvent, ToolCallStart
from app.streams.port import LogEntry
from tests.contracts.event_logs import (
    DONE,
    Log,
    a_run,
    a_word,
    append_all,
    read_all,
    some_events,
    with_positions,
)
from tests.entries import AnyTime
from tests.patience import PATIENCE_S


async def test_positions_count_from_one_in_the_order_of_appending(event_log: Log) -> None:
    run, events = a_run(), some_events(5)
    assert [await event_log.append(run, event) for event in events] == [1, 2, 3, 4, 5]
    assert await read_all(event_log, run) == with_positions(events)


@pytest.mark.parametrize("after", [5, 99])
async def test_following_after_the_end_ends_at_once(event_log: Log, after: int) -> None:
    run = a_run()
    await append_all(event_log, run, some_events(5))
    assert await read_all(event_log, run, after=after) == []


async def test_a_run_without_events_is_waited_for(event_log: Log) -> None:
    run, events = a_run(), some_events(4)
    reader = asyncio.create_task(read_all(event_log, run))
    done, _ = await asyncio.wait({reader}, timeout=0.25)
    assert not done
    await append_all(event_log, run, events)
    assert await reader == with_positions(events)


async def test_everything_ready_comes_in_one_batch(event_log: Log) -> None:
    run, events = a_run(), some_events(40)
    await append_all(event_log, run, events)
    async with aclosing(event_log.follow(run, after=10)) as batches:
        assert list(await anext(batches)) == with_positions(events, after=10)


async def test_a_reader_cancelled_while_waiting_does_not_affect_others(event_log: Log) -> None:
    run, events = a_run(), some_events(5)
    await append_all(event_log, run, events[:2])
    cancelled_reader = asyncio.create_task(read_all(event_log, run))
    other_reader = asyncio.create_task(read_all(event_log, run))
    await asyncio.wait({cancelled_reader}, timeout=0.15)
    cancelled_reader.cancel()
    await asyncio.wait({cancelled_reader})
    assert cancelled_reader.cancelled()
    await append_all(event_log, run, events[2:])
    assert await other_reader == with_positions(events)


async def test_reading_returns_what_is_there_and_does_not_wait(event_log: Log) -> None:
    run, events = a_run(), some_events(5)
    assert list(await event_log.read(run)) == []
    await append_all(event_log, run, events[:3])
    assert list(await event_log.read(run)) == with_positions(events[:3])


async def test_no_event_can_be_appended_after_done(event_log: Log) -> None:
    run, events = a_run(), some_events(3)
    await append_all(event_log, run, events)
    with pytest.raises(Conflict):
        await event_log.append(run, a_word("late"))
    assert await read_all(event_log, run) == with_positions(events)


async def test_a_reader_that_is_behind_may_finish_after_delete(event_log: Log) -> None:
    run, events = a_run(), some_events(8)
    await append_all(event_log, run, events[:3])
    async with aclosing(event_log.follow(run)) as behind, asyncio.timeout(PATIENCE_S):
        received = list(await anext(behind))
        await append_all(event_log, run, events[3:])
        await event_log.delete(run)
        received += [entry async for batch in behind for entry in batch]
    assert received == with_positions(events)


async def test_deleting_an_unfinished_run_ends_its_readers(event_log: Log) -> None:
    run, events = a_run(), some_events(4)
    await append_all(event_log, run, events[:2])
    async with asyncio.timeout(PATIENCE_S), aclosing(event_log.follow(run)) as batches:
        assert list(await anext(batches)) == with_positions(events[:2])
        waiting = asyncio.ensure_future(anext(batches, None))
        await asyncio.wait({waiting}, timeout=0.02)
        await event_log.delete(run)
        assert await waiting is None


@pytest.mark.parametrize("appended", [0, 2, 5])
async def test_a_deleted_run_is_not_waited_for(event_log: Log, appended: int) -> None:
    run, events = a_run(), some_events(5)
    await append_all(event_log, run, events[:appended])
    await event_log.delete(run)
    assert len(await read_all(event_log, run)) <= appended
    with pytest.raises(Conflict):
        await event_log.append(run, a_word("late"))


async def test_concurrent_runs_do_not_mix(event_log: Log) -> None:
    runs = {a_run(f"run-{size}"): some_events(size) for size in range(3, 13)}
    readers = [asyncio.create_task(read_all(event_log, run)) for run in runs]
    await asyncio.gather(*(append_all(event_log, run, events) for run, events in runs.items()))
    assert await asyncio.gather(*readers) == [with_positions(events) for events in runs.values()]


async def test_the_same_run_id_in_two_accounts_is_two_runs(event_log: Log) -> None:
    mine, theirs = a_run("same:id"), a_run("same:id")
    await append_all(event_log, mine, some_events(3))
    await append_all(event_log, theirs, some_events(7))
    assert len(await read_all(event_log, mine)) == 3
    assert len(await read_all(event_log, theirs)) == 7


async def test_events_come_back_as_they_were(event_log: Log) -> None:
    run = a_run()
    events: list[ClientEvent] = [
        a_word("a\u2028b\r\n\0 \U0001f600 é"),
        ToolCallStart(
            tool_call_id="t",
            tool_name="core__get_current_time",
            args={"z": [1, 1.5, None], "a": 1e22},
            parent_tool_call_id="p",
        ),
        DONE,
    ]
    await append_all(event_log, run, events)
    assert await read_all(event_log, run) == with_positions(events)


@pytest.mark.parametrize("rounds", range(6))
async def test_positions_stay_gapless_when_an_append_is_cancelled(event_log: Log, rounds: int) -> None:
    run = a_run()
    await event_log.append(run, a_word("first"))
    append = asyncio.create_task(event_log.append(run, a_word("perhaps")))
    for _ in range(rounds):
        await asyncio.sleep(0)
    append.cancel()
    await asyncio.wait({append})
    await event_log.append(run, DONE)
    received = await read_all(event_log, run)
    assert [entry.position for entry in received] == list(range(1, len(received) + 1))
    assert [entry.event for entry in received] in (
        [a_word("first"), DONE],
        [a_word("first"), a_word("perhaps"), DONE],
    )


async def test_closing_ends_readers_and_refuses_writers(event_log: Log) -> None:
    run = a_run()
    await event_log.ping()
    await append_all(event_log, run, some_events(5)[:2])
    readers = [asyncio.create_task(read_all(event_log, key)) for key in (run, a_run())]
    await asyncio.sleep(0)
    await event_log.aclose()
    await asyncio.gather(*readers)
    assert await read_all(event_log, run) == []
    with pytest.raises(Unavailable):
        await event_log.append(run, DONE)
    with pytest.raises(Unavailable):
        await event_log.ping()


@given(
    pauses=st.lists(st.integers(0, 3), min_size=2, max_size=30),
    readers=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 3)), max_size=8),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_every_reader_gets_each_entry_once_however_they_interleave(
    event_log: Log, pauses: list[int], readers: list[tuple[int, int, int]]
) -> None:
    """`pauses`: turns of the loop before each append. A reader: starts at, after, turns per batch."""
    run, events = a_run(), some_events(len(pauses))

    async def read_slowly(after: int, turns: int) -> list[LogEntry]:
        received: list[LogEntry] = []
        async with aclosing(event_log.follow(run, after=after)) as batches:
            async for batch in batches:
                received += batch
                await pause(turns)
        return received

    async with asyncio.timeout(PATIENCE_S):
        listening = []
        for number, (event, turns) in enumerate(zip(events, pauses, strict=True)):
            for start, after, slowness in readers:
                if start % len(events) == number:
                    reader = asyncio.create_task(read_slowly(after % len(events), slowness))
                    listening.append((after % len(events), reader))
            await pause(turns)
            await event_log.append(run, event)
        for after, reader in listening:
            assert await reader == with_positions(events, after=after)
    await event_log.delete(run)


async def pause(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_a_run_whose_events_are_lost_resumes_after_a_position(event_log: Log) -> None:
    run, events = a_run(), some_events(4)
    await event_log.resume(run, attempt=1, after=1000)
    await append_all(event_log, run, events)
    assert await read_all(event_log, run) == with_positions(events, shift=1000)
    assert await read_all(event_log, run, after=7) == with_positions(events, shift=1000)
    assert await read_all(event_log, run, after=1002) == with_positions(events, shift=1000)[2:]


async def test_a_resumed_run_keeps_the_events_of_earlier_attempts(event_log: Log) -> None:
    run, events = a_run(), some_events(4)
    await event_log.append(run, events[0])
    await event_log.resume(run, attempt=1, after=1000)
    await append_all(event_log, run, events[1:])
    expected = [AnyTime(1, events[0]), *with_positions(events[1:], shift=1000)]
    assert await read_all(event_log, run) == list(await event_log.read(run)) == expected


async def test_stop_following_ends_readers_that_wait(event_log: Log) -> None:
    run = a_run()
    readers = [asyncio.create_task(read_all(event_log, run)) for _ in range(3)]
    await asyncio.wait(readers, timeout=0.02)
    event_log.stop_following(run)
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*readers) == [[], [], []]


async def test_readers_of_a_parked_run_wait_for_its_next_attempt(event_log: Log) -> None:
    run, events = a_run(), some_events(5)
    await append_all(event_log, run, events[:2])
    reader = asyncio.create_task(read_all(event_log, run))
    await asyncio.wait({reader}, timeout=0.02)
    await event_log.park(run, within_s=PATIENCE_S)
    await event_log.resume(run, attempt=1, after=1_000_000)
    for event in events[2:]:
        await event_log.append(run, event)

    assert [entry.event for entry in await reader] == events
