"""Runs of an account that end at the same time."""

import asyncio

import pytest

from app.auth.records import KeyRecord
from app.platform.db import Database
from app.runs.dispatch.limits import DispatchLimits
from tests.integration.run_queue import Queue
from tests.integration.test_lock_order import until_waiting


async def test_ends_of_an_account_wait_for_each_other_only_if_a_run_waits(
    database: Database, key: KeyRecord
) -> None:
    """One for which none waits is over while the transaction of another is still open."""
    worker = Queue(database, DispatchLimits(100, per_account=3))
    for name in ("a", "b", "c"):
        await worker.post(key, name, at_once=True)

    async with database.transaction() as tx:
        await worker.end_in(tx, key, "a", may_share=True)
        await worker.end(key, "b")
        accepted = asyncio.create_task(worker.post(key, "d", at_once=True))
        await until_waiting(database, [accepted])
    assert (await accepted).status == "running"

    for name in ("e", "f"):
        await worker.post(key, name, at_once=True)
    assert await worker.held() == {"f": "limit"}
    async with database.transaction() as tx:
        await worker.end_in(tx, key, "c", may_share=True)
        another = asyncio.create_task(worker.end(key, "d"))
        await until_waiting(database, [another])
    await another
    assert await worker.held() == {"f": None}


@pytest.mark.parametrize("ends", [["a"], ["a", "b"]])
async def test_a_run_that_begins_to_wait_while_others_end_is_released(
    database: Database, key: KeyRecord, ends: list[str]
) -> None:
    worker = Queue(database, DispatchLimits(100, per_account=2))
    for name in ("a", "b"):
        await worker.post(key, name, at_once=True)

    ending = list[asyncio.Task[object]]()
    async with database.transaction() as tx:
        await worker.queue.insert(tx, worker.new(key, "waits"))
        for name in ends:
            ending.append(asyncio.create_task(worker.end(key, name)))
            await until_waiting(database, ending)
    await asyncio.gather(*ending)

    assert await worker.held() == {"waits": None}
