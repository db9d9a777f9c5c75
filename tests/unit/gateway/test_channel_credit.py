"""What a lane asks of its account before a call."""

import asyncio
from dataclasses import replace

import pytest

from app.gateway.call import CallCost, Refusal
from app.gateway.channel import CallRefused
from app.gateway.estimate import COUNT_TOLERANCE_TOKENS, CallSize
from app.usage.records import TokenUsage
from tests.patience import PATIENCE_S
from tests.unit.gateway import calls


async def test_credit_is_asked_for_what_all_calls_under_way_may_cost(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing)
    first = calls.Caller(channel, tokens=50)
    await first.enters()
    second = calls.Caller(channel, tokens=7)
    await second.enters()
    await first.answer(calls.a_message())
    await second.answer(calls.a_message(2))
    await calls.answered(channel, calls.a_message(3), tokens=5)

    # At first all that they may cost has to be there.
    assert billing.requested == [(50, 50), (57, 57), (5, 5)]


async def test_what_a_call_needs_may_come_back_from_those_before_it(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing)
    first = calls.Caller(channel, tokens=50)
    await first.enters()
    billing.refusal = "credit"
    second = calls.Caller(channel, tokens=7)
    assert await calls.waits(second)

    billing.refusal = None
    await first.answer(calls.a_message())
    await second.enters()
    await second.answer(calls.a_message(2))

    # Of the new call only the prompt of three tokens has to be there, if there is not more.
    assert billing.requested == [(50, 50), (57, 57), (57, 53), (7, 7)]
    assert channel.refused is None


async def test_the_provider_counts_before_anything_is_refused(billing: calls.Billing) -> None:
    """A prompt of 100 tokens at most, which turns out to have 20."""
    channel = calls.a_channel(billing)
    asked: list[int] = []

    async def check(cost: CallCost) -> Refusal | None:
        billing.requested.append((int(cost.maximum), int(cost.minimum)))
        return None if cost.minimum <= 100 else "credit"

    async def count() -> int:
        asked.append(1)
        return 20

    channel.hooks = billing.hooks(check)
    size = CallSize(
        calls.MODEL, TokenUsage(input_tokens=1_000, output_tokens=10), TokenUsage(input_tokens=250)
    )
    async with channel.call(size, count) as call:
        # And what a count may miss.
        assert call.reserved.tokens == 20 + COUNT_TOLERANCE_TOKENS + 10
        async with channel.call(replace(size, maximum=TokenUsage(output_tokens=6)), count):
            pass

    assert billing.requested == [(1_010, 1_010), (94, 94), (100, 100)]
    assert asked == [1]


async def test_a_provider_that_does_not_count_leaves_the_bound(billing: calls.Billing) -> None:
    billing.refusal = "credit"
    channel = calls.a_channel(billing)
    refused = CallSize(calls.MODEL, TokenUsage(input_tokens=1_000), TokenUsage(input_tokens=250))

    async def count() -> None:
        return None

    with pytest.raises(CallRefused, match="credit"):
        async with channel.call(refused, count):
            pass

    assert billing.requested == [(1_000, 1_000), (1_000, 1_000), (1_000, 250)]


async def test_who_waits_for_credit_ends_with_the_run(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing)
    first = calls.Caller(channel, tokens=50)
    await first.enters()
    billing.refusal = "credit"
    second = calls.Caller(channel, tokens=7)
    assert await calls.waits(second)

    closing = asyncio.create_task(channel.close())

    with pytest.raises(CallRefused):
        await second.task
    await first.answer()
    await closing


async def test_the_account_may_object(billing: calls.Billing) -> None:
    billing.refusal = "credit"
    channel = calls.a_channel(billing)

    assert await calls.refusal_of(channel) == "credit"
    billing.refusal = None
    await calls.answered(channel, calls.a_message())

    assert channel.refused == "credit"


async def test_an_objection_takes_no_room(billing: calls.Billing) -> None:
    billing.refusal = "journal"
    channel = calls.a_channel(billing, max_total_tokens=100)
    assert await calls.refusal_of(channel, tokens=1000) == "journal"
    billing.refusal = None

    async with asyncio.timeout(PATIENCE_S):
        await calls.answered(channel, calls.a_message())


async def test_whoever_waited_is_asked_for_credit_when_its_time_has_come(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_total_tokens=100)
    first = calls.Caller(channel, tokens=1000)
    await first.enters()
    second = calls.Caller(channel)
    assert await calls.waits(second)

    billing.refusal = "credit"
    await first.answer(calls.a_message(tokens=10))

    with pytest.raises(CallRefused, match="credit"):
        await second.task


async def test_whoever_is_cancelled_while_credit_is_asked_for_leaves_nothing_behind(
    billing: calls.Billing,
) -> None:
    requested = asyncio.Event()

    async def slow(_under_way: CallCost) -> Refusal | None:
        requested.set()
        await asyncio.sleep(calls.FAR_S)
        return None

    channel = calls.a_channel(billing, max_total_tokens=100)
    channel.hooks = billing.hooks(slow)
    caller = calls.Caller(channel, tokens=100)
    await requested.wait()
    caller.task.cancel()
    await asyncio.wait({caller.task})
    channel.hooks = billing.hooks()

    async with asyncio.timeout(PATIENCE_S):
        await calls.answered(channel, calls.a_message())


async def test_a_run_that_ends_while_credit_is_asked_for_lets_nothing_through(billing: calls.Billing) -> None:
    requested, answer = asyncio.Event(), asyncio.Event()

    async def slow(_under_way: CallCost) -> Refusal | None:
        requested.set()
        await answer.wait()
        return None

    channel = calls.a_channel(billing)
    channel.hooks = billing.hooks(slow)
    caller = calls.Caller(channel)
    await requested.wait()
    closing = asyncio.create_task(channel.close())
    await asyncio.sleep(0)
    answer.set()

    with pytest.raises(CallRefused, match="ended"):
        await caller.task
    await closing
