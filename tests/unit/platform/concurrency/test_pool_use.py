import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from app.platform.concurrency.pool_use import PoolUse


@asynccontextmanager
async def opened(place: asyncio.Semaphore) -> AsyncIterator[None]:
    async with place:
        yield


async def test_only_what_has_no_connection_yet_waits() -> None:
    use, place = PoolUse(SimpleNamespace(checkedout=lambda: 3, size=lambda: 8)), asyncio.Semaphore(1)
    async with use.connected(opened(place)):
        waiting = [asyncio.create_task(use.connected(opened(place)).__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        while_taken = use.waiting
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)

    assert (while_taken, use.waiting) == (3, 0)
    assert (use.in_use, use.size) == (3, 8)


async def test_a_connection_that_cannot_be_opened_does_not_wait_for_ever() -> None:
    use = PoolUse(None)

    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise ConnectionError
        yield

    with pytest.raises(ConnectionError):
        async with use.connected(broken()):
            pass

    assert use.waiting == 0
