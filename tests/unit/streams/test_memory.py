"""The in-process event log frees memory early and never blocks the event loop."""

import asyncio
import gc
import weakref
from contextlib import aclosing

import pytest

from app.events import Done
from app.streams.memory import DELETED_RUNS_REMEMBERED, MemoryEventLog
from app.streams.run_buffer import BATCH, RunLogClosed
from tests.bystander import a_bystander
from tests.contracts.event_logs import DONE, a_run, a_word
from tests.entries import AnyTime
from tests.patience import PATIENCE_S


async def test_a_deleted_run_leaves_nothing_behind() -> None:
    log, run, event = MemoryEventLog(), a_run(), a_word("word")
    trace = weakref.ref(event)
    await log.append(run, event)
    await log.append(run, DONE)
    await log.delete(run)
    del event
    gc.collect()
    assert trace() is None
    assert len(log) == 0
    assert await log.read(run) == ()


async def test_the_last_reader_of_a_deleted_run_frees_it() -> None:
    log, run, event = MemoryEventLog(), a_run(), a_word("word")
    trace = weakref.ref(event)
    await log.append(run, event)
    async with aclosing(log.follow(run)) as batches:
        assert len(await anext(batches)) == 1
        await log.delete(run)
        del event
        assert trace() is not None
    del batches
    gc.collect()
    assert trace() is None


async def test_waiting_for_a_run_without_events_leaves_nothing_behind() -> None:
    log, run = MemoryEventLog(), a_run()
    readers = [asyncio.create_task(anext(log.follow(run), None)) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(log) == 1
    for reader in readers:
        reader.cancel()
    await asyncio.wait(readers)
    assert len(log) == 0


async def test_a_reader_that_leaves_does_not_free_a_run_others_wait_for() -> None:
    log, run = MemoryEventLog(), a_run()
    leaving, staying = (asyncio.create_task(anext(log.follow(run), None)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait({leaving})
    await log.append(run, DONE)
    async with asyncio.timeout(PATIENCE_S):
        assert await staying == (AnyTime(1, DONE),)


async def test_only_the_latest_deleted_runs_are_remembered() -> None:
    log, oldest = MemoryEventLog(), a_run()
    await log.delete(oldest)
    latest = [a_run() for _ in range(DELETED_RUNS_REMEMBERED)]
    for run in latest:
        await log.delete(run)
    with pytest.raises(RunLogClosed):
        await log.append(latest[0], DONE)
    assert await log.append(oldest, DONE) == 1


async def test_a_writer_and_a_reader_that_never_wait_let_other_tasks_run() -> None:
    log, run = MemoryEventLog(), a_run()
    await log.append(run, a_word("word"))
    async with a_bystander() as bystander, aclosing(log.follow(run)) as batches:
        async for batch in batches:
            if batch[-1].position < 500:
                await log.append(run, a_word("word"))
            elif not isinstance(batch[-1].event, Done):
                await log.append(run, DONE)
    assert bystander.turns >= 500


async def test_a_writer_never_waits() -> None:
    log, run = MemoryEventLog(), a_run()
    async with aclosing(log.follow(run)) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        for position in range(1, 1001):
            append = log.append(run, a_word("word"))
            with pytest.raises(StopIteration) as done:
                append.send(None)
            assert done.value.value == position
        assert len(await waiting) == BATCH
        assert len(await anext(batches)) == 1000 - BATCH
