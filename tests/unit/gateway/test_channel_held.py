"""Calls that wait for what is only held for other runs."""

import asyncio
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from app.gateway.channel import CallRefused, Channel
from tests.patience import PATIENCE_S
from tests.unit.gateway.calls import Billing, Caller, a_channel, a_message, refusal_of, waits
from tests.virtual_time import in_virtual_time

HELD_WAIT_S = 30.0


@dataclass(slots=True)
class HeldBilling(Billing):
    """Refuses calls for what is held for other runs."""

    reported: list[str] = field(default_factory=list)

    async def report(self) -> None:
        self.reported.append("refused")

    def channel(self, **limits: Any) -> Channel:
        channel = a_channel(self, **limits)
        channel.hooks = replace(
            channel.hooks, is_held=lambda: True, held_wait_s=HELD_WAIT_S, report_refusal=self.report
        )
        return channel


@in_virtual_time
async def test_calls_of_a_run_wait_together() -> None:
    channel = HeldBilling(refusal="account_budget").channel(of_client=True)

    calls = [Caller(channel) for _ in range(5)]
    await asyncio.wait({call.task for call in calls})

    assert [type(call.task.exception()) for call in calls] == [CallRefused] * 5
    assert HELD_WAIT_S <= asyncio.get_running_loop().time() < HELD_WAIT_S + 1


@in_virtual_time
async def test_a_call_waits_for_other_runs_while_another_call_of_its_run_is_made() -> None:
    billing = HeldBilling()
    channel = billing.channel()
    first = Caller(channel)
    await first.enters()
    billing.refusal = "credit"
    second = Caller(channel)
    assert await waits(second)

    billing.refusal = None
    await second.enters()

    assert not first.task.done()
    await first.answer(a_message())
    await second.answer(a_message(2))


@in_virtual_time
async def test_a_limit_of_the_run_itself_is_held_for_no_other_one() -> None:
    channel = HeldBilling().channel(covers_calls=True, max_budget_usd=Decimal(5))

    assert await refusal_of(channel, tokens=10) == "budget"
    assert asyncio.get_running_loop().time() == 0


@in_virtual_time
async def test_a_run_that_ends_while_its_call_waits_is_refused_by_no_budget() -> None:
    billing = HeldBilling(refusal="account_budget")
    channel = billing.channel()
    caller = Caller(channel)
    assert await waits(caller)

    async with asyncio.timeout(PATIENCE_S):
        await channel.close()

    with pytest.raises(CallRefused, match="ended"):
        await caller.task
    assert billing.reported == []
