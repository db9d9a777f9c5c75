import asyncio
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from app.gateway import channel as channels
from app.gateway.call import Call
from app.gateway.channel import CallRefused
from tests.patience import PATIENCE_S
from tests.unit.gateway import calls
from tests.virtual_time import in_virtual_time


async def test_a_call_is_told_of_in_order(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing)

    await calls.answered(channel, calls.a_message())

    assert billing.noted == [("opened", "msg_1"), ("closed", "msg_1")]
    assert (list(channel.messages), channel.refused) == (["msg_1"], None)


async def test_the_last_word_about_a_message_counts(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_total_tokens=30)

    await calls.answered(channel, calls.a_message(tokens=100), calls.a_message(tokens=20))

    assert [message.usage.output_tokens for message in channel.messages.values()] == [20]
    assert not channel.budget_exhausted


async def test_after_the_deadline_nothing_is_let_through(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing)
    await calls.answered(channel, calls.a_message())
    channel.limits = replace(channel.limits, deadline=asyncio.get_running_loop().time())

    assert await calls.refusal_of(channel) == "deadline"
    assert channel.refused == "deadline"


@pytest.mark.parametrize("limits", [{"max_total_tokens": 20}, {"max_budget_usd": Decimal(20)}])
async def test_a_budget_that_is_reached_lets_nothing_through(
    billing: calls.Billing, limits: dict[str, Any]
) -> None:
    channel = calls.a_channel(billing, **limits)

    await calls.answered(channel, calls.a_message(1, tokens=19))
    assert not channel.budget_exhausted
    await calls.answered(channel, calls.a_message(2, tokens=1))

    assert channel.budget_exhausted
    assert await calls.refusal_of(channel) == "budget"


async def test_each_message_is_priced_once_and_again_only_if_it_changes(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_budget_usd=Decimal(40))
    await calls.answered(channel, calls.a_message(1), calls.a_message(2))
    assert not channel.budget_exhausted
    billing.priced.clear()

    assert not any(channel.budget_exhausted for _ in range(10))
    assert billing.priced == []
    channel.close_message(calls.a_message(2, tokens=30))

    assert channel.budget_exhausted
    assert billing.priced == ["msg_2"]


async def test_a_partial_message_uses_the_budget_too(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_total_tokens=20)

    await calls.answered(channel, calls.a_message(tokens=20, complete=False, whole_blocks=0))

    assert await calls.refusal_of(channel) == "budget"


async def test_turns_are_answers(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_turns=2)

    await calls.answered(channel, calls.a_message(1))
    await calls.answered(channel, calls.a_message(2, complete=False, whole_blocks=1))

    assert await calls.refusal_of(channel) == "turns"


async def test_an_empty_start_that_is_tried_again_is_no_turn(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_turns=1)

    await calls.answered(channel, calls.a_message(1, complete=False, whole_blocks=0))
    await calls.answered(channel)
    await calls.answered(channel, calls.a_message(2))

    assert await calls.refusal_of(channel) == "turns"
    assert list(channel.messages) == ["msg_1", "msg_2"]


async def test_calls_at_once_are_no_way_around_the_last_turn(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_turns=2)
    await calls.answered(channel, calls.a_message(1))
    first, second, third = (calls.Caller(channel) for _ in range(3))

    await first.enters()
    assert await calls.waits(second)
    assert await calls.waits(third)
    await first.answer(calls.a_message(2, complete=False, whole_blocks=0))
    await second.enters()
    assert await calls.waits(third)
    await second.answer(calls.a_message(3))

    with pytest.raises(CallRefused, match="turns"):
        await third.task


async def test_the_first_reason_is_remembered(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_turns=1)
    await calls.answered(channel, calls.a_message())
    await calls.refusal_of(channel)
    await channel.close()

    assert await calls.refusal_of(channel) == "ended"
    assert channel.refused == "turns"


async def test_a_call_that_may_use_up_the_budget_goes_alone(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_total_tokens=100)
    large = calls.Caller(channel, tokens=100)
    await large.enters()
    small = calls.Caller(channel, tokens=1)

    assert await calls.waits(small)
    await large.answer(calls.a_message(tokens=99))
    await small.enters()
    await small.answer(calls.a_message(2, tokens=1))

    assert await calls.refusal_of(channel) == "budget"


async def test_calls_that_fit_together_go_together(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_budget_usd=Decimal(100))
    first, second, third = (calls.Caller(channel, tokens=50) for _ in range(3))

    await asyncio.gather(first.enters(), second.enters())
    assert await calls.waits(third)
    await first.answer()
    await third.enters()
    await asyncio.gather(second.answer(), third.answer())


async def test_whoever_waited_is_refused_when_the_budget_is_used(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_total_tokens=100)
    first = calls.Caller(channel, tokens=100)
    await first.enters()
    waiting = [calls.Caller(channel) for _ in range(5)]
    assert all([await calls.waits(caller) for caller in waiting])

    await first.answer(calls.a_message(tokens=100))
    ends = await asyncio.gather(*(caller.task for caller in waiting), return_exceptions=True)

    assert [str(end) for end in ends] == ["budget"] * 5


async def test_whoever_waits_and_gives_up_leaves_nothing_behind(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_total_tokens=100)
    first = calls.Caller(channel, tokens=100)
    await first.enters()
    waiting = [calls.Caller(channel, tokens=100) for _ in range(10)]
    assert await calls.waits(waiting[-1])

    for caller in waiting[:-1]:
        caller.task.cancel()
    await asyncio.wait([caller.task for caller in waiting[:-1]])
    await first.answer(calls.a_message(tokens=1))

    async with asyncio.timeout(PATIENCE_S):
        await waiting[-1].admitted.wait()
        await waiting[-1].answer()
        await channel.close()


async def test_a_call_that_fails_makes_room(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_total_tokens=100)

    async def fails() -> None:
        async with channel.call(calls.size(100)):
            raise ConnectionError

    for _ in range(3):
        with pytest.raises(ConnectionError):
            await fails()


@in_virtual_time
async def test_closing_ends_calls_under_way_and_refuses_whoever_waits(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing, max_total_tokens=100)
    first = calls.Caller(channel, tokens=100)
    await first.enters()
    second = calls.Caller(channel)
    assert await calls.waits(second)

    await channel.close()

    assert first.task.cancelled()
    with pytest.raises(CallRefused, match="ended"):
        await second.task
    assert await calls.refusal_of(channel) == "ended"


@in_virtual_time
async def test_a_call_that_ends_by_itself_is_not_cut_short(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing)
    caller = calls.Caller(channel)
    await caller.enters()

    closing = asyncio.create_task(channel.close())
    await asyncio.sleep(calls.SOON_S)
    await caller.answer(calls.a_message())
    async with asyncio.timeout(channels.GRACE_S / 2):
        await closing

    assert billing.noted == [("closed", "msg_1")]


@in_virtual_time
async def test_closing_waits_for_what_is_still_to_be_noted(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing)
    begun = asyncio.Event()

    async def stubborn() -> None:
        async with channel.call(calls.size()) as call:
            await _reported_late(call, begun)

    task = asyncio.create_task(stubborn())
    await begun.wait()
    await channel.close()

    noted = list(billing.noted)
    assert noted == [("opened", "msg_1"), ("closed", "msg_1")]
    await asyncio.wait({task})
    await asyncio.sleep(calls.SOON_S)
    assert billing.noted == noted


async def _reported_late(call: Call, begun: asyncio.Event) -> None:
    call.on_start(calls.a_message())
    begun.set()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(calls.FAR_S)
    await asyncio.sleep(calls.SOON_S)
    call.on_usage(calls.a_message())


@in_virtual_time
async def test_closing_twice_does_nothing_more(billing: calls.Billing) -> None:
    channel = calls.a_channel(billing)
    await calls.answered(channel, calls.a_message())

    async with asyncio.timeout(channels.GRACE_S / 2):
        await asyncio.gather(channel.close(), channel.close())
        await channel.close()

    assert billing.noted == [("opened", "msg_1"), ("closed", "msg_1")]
