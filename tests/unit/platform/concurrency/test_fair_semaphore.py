"""Who gets a slot, and when."""

import asyncio

from app.platform.concurrency.fair_semaphore import FairSemaphore
from tests.unit.waiting import turns


async def hold(semaphore: FairSemaphore, owner: str, order: list[str], until: asyncio.Event) -> None:
    async with semaphore.slot(owner):
        order.append(owner)
        await until.wait()


async def test_no_owner_gets_all_slots() -> None:
    semaphore, order, until = FairSemaphore(2), list[str](), asyncio.Event()
    holding = [asyncio.create_task(hold(semaphore, owner, order, until)) for owner in ("a", "a", "b")]
    await turns(5)

    assert order == ["a", "b"]
    assert semaphore.waiting("a") == 1

    until.set()
    await asyncio.gather(*holding)
    assert order == ["a", "b", "a"]


async def test_owners_take_turns() -> None:
    semaphore, order, until = FairSemaphore(1), list[str](), asyncio.Event()
    holding = [asyncio.create_task(hold(semaphore, owner, order, until)) for owner in "aaabc"]
    await turns(5)

    until.set()
    await asyncio.gather(*holding)

    assert order == ["a", "a", "b", "c", "a"]


async def test_a_cancelled_waiter_passes_its_slot_on() -> None:
    semaphore, order, until = FairSemaphore(1), list[str](), asyncio.Event()
    first, second, third = [asyncio.create_task(hold(semaphore, owner, order, until)) for owner in "abc"]
    await turns(5)

    second.cancel()
    first.cancel()
    await asyncio.wait({first, second})
    until.set()
    await third

    assert order == ["a", "c"]
