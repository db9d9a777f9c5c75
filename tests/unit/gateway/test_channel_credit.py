"""What a lane asks of its account before a call."""

import asyncio

import pytest

from app.gateway.call import CallCost, Refusal
from app.gateway.channel import CallRefused
from tests.unit.gateway.calls import (
    FAR_S,
    TIMEOUT_S,
    Billing,
    Caller,
    a_channel,
    a_message,
    answered,
    refusal_of,
    waits,
)


async def test_credit_is_asked_for_what_all_calls_under_way_may_cost(billing: Billing) -> None:
    channel = a_channel(billing)
    first = Caller(channel, tokens=50)
    await first.enters()
    second = Caller(channel, tokens=7)
    await second.enters()
    await first.answer(a_message())
    await second.answer(a_message(2))
    await answered(channel, a_message(3), tokens=5)

    # The most, and what has to be there: of the new call only the prompt of three tokens.
    assert billing.requested == [(50, 3), (57, 53), (5, 3)]


async def test_what_a_call_needs_may_come_back_from_those_before_it(billing: Billing) -> None:
    channel = a_channel(billing)
    first = Caller(channel, tokens=50)
    await first.enters()
    billing.refusal = "credit"
    second = Caller(channel, tokens=7)
    assert await waits(second)

    billing.refusal = None
    await first.answer(a_message())
    await second.enters()
    await second.answer(a_message(2))

    assert billing.requested == [(50, 3), (57, 53), (7, 3)]
    assert channel.refused is None


async def test_who_waits_for_credit_ends_with_the_run(billing: Billing) -> None:
    channel = a_channel(billing)
    first = Caller(channel, tokens=50)
    await first.enters()
    billing.refusal = "credit"
    second = Caller(channel, tokens=7)
    assert await waits(second)

    closing = asyncio.create_task(channel.close())

    with pytest.raises(CallRefused):
        await second.task
    await first.answer()
    await closing


async def test_the_account_may_object(billing: Billing) -> None:
    billing.refusal = "credit"
    channel = a_channel(billing)

    assert await refusal_of(channel) == "credit"
    billing.refusal = None
    await answered(channel, a_message())

    assert channel.refused == "credit"


async def test_an_objection_takes_no_room(billing: Billing) -> None:
    billing.refusal = "journal"
    channel = a_channel(billing, max_total_tokens=100)
    assert await refusal_of(channel, tokens=1000) == "journal"
    billing.refusal = None

    async with asyncio.timeout(TIMEOUT_S):
        await answered(channel, a_message())


async def test_whoever_waited_is_asked_for_credit_when_its_time_has_come(billing: Billing) -> None:
    channel = a_channel(billing, max_total_tokens=100)
    first = Caller(channel, tokens=1000)
    await first.enters()
    second = Caller(channel)
    assert await waits(second)

    billing.refusal = "credit"
    await first.answer(a_message(tokens=10))

    with pytest.raises(CallRefused, match="credit"):
        await second.task


async def test_whoever_is_cancelled_while_credit_is_asked_for_leaves_nothing_behind(
    billing: Billing,
) -> None:
    requested = asyncio.Event()

    async def slow(_under_way: CallCost) -> Refusal | None:
        requested.set()
        await asyncio.sleep(FAR_S)
        return None

    channel = a_channel(billing, max_total_tokens=100)
    channel.hooks = billing.hooks(slow)
    caller = Caller(channel, tokens=100)
    await requested.wait()
    caller.task.cancel()
    await asyncio.wait({caller.task})
    channel.hooks = billing.hooks()

    async with asyncio.timeout(TIMEOUT_S):
        await answered(channel, a_message())


async def test_a_run_that_ends_while_credit_is_asked_for_lets_nothing_through(billing: Billing) -> None:
    requested, answer = asyncio.Event(), asyncio.Event()

    async def slow(_under_way: CallCost) -> Refusal | None:
        requested.set()
        await answer.wait()
        return None

    channel = a_channel(billing)
    channel.hooks = billing.hooks(slow)
    caller = Caller(channel)
    await requested.wait()
    closing = asyncio.create_task(channel.close())
    await asyncio.sleep(0)
    answer.set()

    with pytest.raises(CallRefused, match="ended"):
        await caller.task
    await closing
