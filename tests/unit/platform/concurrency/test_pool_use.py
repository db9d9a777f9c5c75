import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from app.platform.concurrency.pool_use import PoolUse


class Places:
    """What opens one connection at a time."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self._place, self._is_broken = asyncio.Semaphore(1), is_broken

    async def connect(self) -> "Places":
        if self._is_broken:
            raise ConnectionError
        await self._place.acquire()
        return self

    @asynccontextmanager
    async def begin(self) -> AsyncIterator["Places"]:
        yield await self.connect()
        self._place.release()


async def test_only_what_has_no_connection_yet_waits() -> None:
    use, places = PoolUse(SimpleNamespace(checkedout=lambda: 3, size=lambda: 8)), Places()
    async with use.connected(places.begin()):
        waiting = [asyncio.create_task(use.connected(places.begin()).__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        while_taken = use.waiting
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)

    assert (while_taken, use.waiting) == (3, 0)
    assert (use.in_use, use.size) == (3, 8)


async def test_a_connection_that_cannot_be_opened_does_not_wait_for_ever() -> None:
    use, places = PoolUse(None), Places(is_broken=True)

    with pytest.raises(ConnectionError):
        async with use.connected(places.begin()):
            pass

    assert use.waiting == 0
