import asyncio
from typing import Any

import pytest

from app.events import ToolCallStart
from app.executors.tools.calls import ToolCalls
from tests.factories import a_context, a_plan
from tests.unit.gateway.calls import Billing, a_channel
from tests.unit.tools.samples.weather import weather


def attached(**limits: Any) -> ToolCalls:
    plan = a_plan(tools=(weather,))
    calls = ToolCalls(plan)
    calls.attach_run(a_context(plan), a_channel(Billing(), **limits))
    return calls


def published(calls: ToolCalls) -> None:
    calls.on_published(ToolCallStart(tool_call_id="toolu_1", tool_name=weather.id, args={}))


async def test_a_call_waits_until_clients_can_see_it_and_its_result_is_handed_out_once() -> None:
    calls = attached()
    calling = asyncio.create_task(calls.run(weather.id, {"city": "Rome"}, "toolu_1"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not calling.done()
    published(calls)

    assert (await calling).markdown == "Sunny in Rome"
    result = calls.take_result("toolu_1")
    assert result is not None
    assert result.visible == {"summary": "sunny"}
    assert calls.take_result("toolu_1") is None


@pytest.mark.parametrize(("limits", "reason"), [({"max_total_tokens": 0}, "budget is used up"), ({}, None)])
async def test_no_tool_is_called_beyond_a_limit(limits: dict[str, Any], reason: str | None) -> None:
    calls = attached(**limits)
    published(calls)

    result = await calls.run(weather.id, {"city": "Rome"}, "toolu_1")

    assert result.is_error is (reason is not None)
    assert reason is None or reason in result.markdown


async def test_no_tool_is_called_before_there_is_a_run() -> None:
    calls = ToolCalls(a_plan(tools=(weather,)))

    assert (await calls.run(weather.id, {"city": "Rome"}, "toolu_1")).visible == {"error": "policy_denied"}


async def test_no_tool_is_called_for_a_run_that_another_process_took_over() -> None:
    plan = a_plan(tools=(weather,))
    calls, context = ToolCalls(plan), a_context(plan)
    calls.attach_run(context, a_channel(Billing()))
    published(calls)
    context.lease.lose([plan.run])

    result = await calls.run(weather.id, {"city": "Rome"}, "toolu_1")

    assert (result.is_error, "cannot go on here" in result.markdown) == (True, True)
