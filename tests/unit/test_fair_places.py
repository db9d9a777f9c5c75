"""Who gets a place, and when."""

import asyncio

from app.fair_places import FairPlaces


async def hold(places: FairPlaces, owner: str, order: list[str], until: asyncio.Event) -> None:
    async with places.place(owner):
        order.append(owner)
        await until.wait()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_owner_has_the_last_place() -> None:
    places, order, until = FairPlaces(2), list[str](), asyncio.Event()
    holding = [asyncio.create_task(hold(places, owner, order, until)) for owner in ("a", "a", "b")]
    await turns()

    assert order == ["a", "b"]
    assert places.waiting("a") == 1

    until.set()
    await asyncio.gather(*holding)
    assert order == ["a", "b", "a"]


async def test_owners_take_turns() -> None:
    places, order, until = FairPlaces(1), list[str](), asyncio.Event()
    holding = [asyncio.create_task(hold(places, owner, order, until)) for owner in ("a", "a", "a", "b", "c")]
    await turns()

    until.set()
    await asyncio.gather(*holding)

    assert order == ["a", "a", "b", "c", "a"]


async def test_a_place_that_was_given_up_goes_to_the_next() -> None:
    places, order, until = FairPlaces(1), list[str](), asyncio.Event()
    first, second, third = [asyncio.create_task(hold(places, owner, order, until)) for owner in "abc"]
    await turns()

    second.cancel()
    first.cancel()
    await asyncio.wait({first, second})
    until.set()
    await third

    assert order == ["a", "c"]
