"""A budget that may be raised: calls wait for one answer, and other limits stay."""

import asyncio
from decimal import Decimal

from tests.unit.gateway.calls import Billing, Caller, a_channel, a_message, answered, refusal_of, waits


class Person:
    """Answers what channels ask."""

    def __init__(self) -> None:
        self.asked: list[tuple[Decimal, Decimal]] = []
        self.answer = asyncio.get_running_loop().create_future()

    async def ask(self, spent: Decimal, limit: Decimal) -> Decimal | None:
        self.asked.append((spent, limit))
        raised: Decimal | None = await self.answer
        return raised


async def test_all_calls_wait_for_one_answer_and_are_made_with_it(billing: Billing) -> None:
    person, channel = Person(), a_channel(billing, max_budget_usd=Decimal(20))
    channel.raise_budget = person.ask
    await answered(channel, a_message(1, tokens=25))
    callers = [Caller(channel) for _ in range(3)]
    assert all([await waits(caller) for caller in callers])
    assert not channel.budget_exhausted
    assert channel.exhausted_limit is None

    person.answer.set_result(Decimal(100))
    for caller in callers:
        await caller.enters()

    assert person.asked == [(Decimal(25), Decimal(20))]
    assert channel.budget_left_usd == Decimal(75)
    await asyncio.gather(*(caller.answer() for caller in callers))


async def test_after_a_denial_it_is_exhausted_and_asks_no_more(billing: Billing) -> None:
    person, channel = Person(), a_channel(billing, max_budget_usd=Decimal(20))
    channel.raise_budget = person.ask
    await answered(channel, a_message(1, tokens=20))
    person.answer.set_result(None)

    assert [await refusal_of(channel) for _ in range(2)] == ["budget", "budget"]
    assert channel.budget_exhausted
    assert channel.exhausted_limit == channel.refused == "budget"
    assert len(person.asked) == 1


async def test_a_limit_of_tokens_is_not_raised(billing: Billing) -> None:
    person = Person()
    channel = a_channel(billing, max_budget_usd=Decimal(20), max_total_tokens=20)
    channel.raise_budget = person.ask
    await answered(channel, a_message(1, tokens=20))

    assert channel.budget_exhausted
    assert await refusal_of(channel) == "budget"
    assert person.asked == []


async def test_a_run_that_ends_waits_for_no_answer(billing: Billing) -> None:
    person, channel = Person(), a_channel(billing, max_budget_usd=Decimal(20))
    channel.raise_budget = person.ask
    await answered(channel, a_message(1, tokens=20))
    caller = Caller(channel)
    assert await waits(caller)

    await channel.close()
    (end,) = await asyncio.gather(caller.task, return_exceptions=True)

    assert str(end) == "ended"
    assert person.answer.cancelled()


async def test_a_budget_that_covers_calls_is_never_passed(billing: Billing) -> None:
    """What the calls beside it may cost counts, too: one waits for those, and is made if there is enough."""
    channel = a_channel(billing, max_budget_usd=Decimal(25), covers_calls=True)
    first, second = Caller(channel), Caller(channel)
    await first.enters()
    await second.enters()
    third = Caller(channel)
    assert await waits(third)
    await first.answer(a_message(1, tokens=4))
    await third.enters()
    await second.answer(a_message(2, tokens=9))
    await third.answer(a_message(3, tokens=4))

    assert channel.budget_left_usd == Decimal(8)
    assert await refusal_of(channel, tokens=9) == "budget"
    await answered(channel, a_message(4, tokens=8), tokens=8)
    assert channel.budget_left_usd == Decimal(0)
