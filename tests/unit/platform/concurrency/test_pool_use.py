import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace

import pytest

from app.platform.concurrency.pool_use import PoolUse

KINDS = ("connected", "autocommitting")


class Places:
    """What opens one connection at a time."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self._place, self._is_broken = asyncio.Semaphore(1), is_broken

    async def connect(self) -> "Places":
        if self._is_broken:
            raise ConnectionError
        await self._place.acquire()
        return self

    @property
    def are_taken(self) -> bool:
        return self._place.locked()

    async def close(self) -> None:
        self._place.release()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator["Places"]:
        yield await self.connect()
        await self.close()

    def used(self, use: PoolUse, kind: str) -> AbstractAsyncContextManager["Places"]:
        if kind == "connected":
            return use.connected(self.begin())
        return use.autocommitting(self.connect())


@pytest.mark.parametrize("kind", KINDS)
async def test_only_what_has_no_connection_yet_waits(kind: str) -> None:
    use, places = PoolUse(SimpleNamespace(checkedout=lambda: 3, size=lambda: 8)), Places()
    async with places.used(use, kind):
        waiting = [asyncio.create_task(places.used(use, kind).__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        while_taken = use.waiting
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)

    assert (while_taken, use.waiting) == (3, 0)
    assert (use.in_use, use.size) == (3, 8)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_connection_that_cannot_be_opened_does_not_wait_for_ever(kind: str) -> None:
    use, places = PoolUse(None), Places(is_broken=True)

    with pytest.raises(ConnectionError):
        async with places.used(use, kind):
            pass

    assert use.waiting == 0


async def test_a_connection_is_closed_when_its_use_is_cancelled() -> None:
    use, places = PoolUse(None), Places()

    async def use_it() -> None:
        async with places.used(use, "autocommitting"):
            await asyncio.Event().wait()

    task = asyncio.create_task(use_it())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert not places.are_taken
