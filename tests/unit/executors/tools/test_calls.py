import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.events import ClientToolCall, ControlEvent, PermissionRequest, Step, ToolCallStart
from app.executors.client_calls import ClientToolResult
from app.executors.control import RunControl
from app.executors.tools.calls import ToolCalls
from app.executors.tools.client_tools import with_client_tools
from app.executors.waiting.records import Decision
from app.graphs.spec import GraphSpec
from app.platform.json_schema.checker import SchemaChecker
from app.requests.client_tools import ClientTool, client_tool_id
from app.tools.extensions.hooks import RunHooks
from app.tools.extensions.loading import Extensions
from runtally.tools.hooks import Hooks, ToolCall
from runtally.tools.result import ToolResult
from runtally.tools.tool import HookContext, ToolContext, tool
from tests.factories import a_context, a_plan, asking, schemas_of
from tests.log_lines import written_log
from tests.patience import PATIENCE_S
from tests.unit.gateway.calls import Billing, a_channel
from tests.unit.tools.calling import Nothing
from tests.unit.tools.samples.weather import weather
from tests.unit.waiting import turns


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
    await turns(100)
    assert not calling.done()
    published(calls)

    assert (await calling).markdown == "Sunny in Rome"
    result = calls.take_result("toolu_1")
    assert result is not None
    assert result.visible == {"summary": "sunny"}
    assert calls.take_result("toolu_1") is None


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_total_tokens": 0}, "This run's budget is used up; no tool is called any more."),
        ({"deadline": 0.0}, "This run's time is up; no tool is called any more."),
    ],
    ids=["budget", "deadline"],
)
async def test_no_tool_is_called_beyond_a_limit(limits: dict[str, Any], reason: str) -> None:
    calls = attached(**limits)
    published(calls)

    result = await calls.run(weather.id, {"city": "Rome"}, "toolu_1")

    assert (result.is_error, result.markdown) == (True, reason)


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


async def test_a_call_of_a_client_tool_waits_for_the_end_of_its_message_and_for_no_approval() -> None:
    spec = GraphSpec(name="g", description="d", system_prompt="p", approve=["read_only"], client_tools=True)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    pick = ClientTool(name="pick", inputSchema=schema)
    plan = a_plan(spec=spec, client_tools=(pick,), schemas=schemas_of(pick))
    async with SchemaChecker(workers=1, check_s=5.0) as schemas:
        events: asyncio.Queue[ControlEvent] = asyncio.Queue()
        control = RunControl(events.put, client_tool_timeout=timedelta(seconds=10 * PATIENCE_S))
        guard = Guard()
        extensions = Extensions(RunHooks([("guard", guard)]))
        context = replace(a_context(plan), control=control, extensions=extensions)
        context = with_client_tools(context, schemas)
        calls, tool_id = ToolCalls(context.plan), client_tool_id("pick")
        calls.attach_run(context, a_channel(Billing()))
        answer = context.control.client_calls.answer
        calls.on_published(ToolCallStart(tool_call_id="toolu_1", tool_name="pick", args={}))

        calling = asyncio.create_task(calls.run(tool_id, {"n": 1}, "toolu_1"))
        # Its arguments are checked first, so the other check ends after it.
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            wrong = await calls.run(tool_id, {"n": "1"}, "toolu_2")
        await turns(100)
        assert events.empty()
        calls.on_published(Step(step_index=1, step_budget=None))
        async with asyncio.timeout(PATIENCE_S):
            called = await events.get()
        assert isinstance(called, ClientToolCall)
        await answer("toolu_1", ClientToolResult("blue"))

        assert (await calling).markdown == "blue"
        assert wrong.visible == {"error": "invalid_args"}
        # What a client executes has no effect here.
        assert [(call.tool_name, call.effect, call.arguments) for call in guard.before] == [
            ("pick", None, {"n": 1})
        ]
        assert [result.code for _, result in guard.after] == ["invalid_args", None]


class Guard(Hooks):
    """Denies calls about Paris, and keeps all calls."""

    def __init__(self) -> None:
        self.before: list[ToolCall] = []
        self.after: list[tuple[ToolCall, ToolResult]] = []

    async def before_tool(self, _context: HookContext, call: ToolCall) -> str | None:
        self.before.append(call)
        return "Not Paris." if call.arguments.get("city") == "Paris" else None

    async def after_tool(self, _context: HookContext, call: ToolCall, result: ToolResult) -> None:
        self.after.append((call, result))


@pytest.mark.parametrize(("city", "text"), [("Rome", "Sunny in Rome"), ("Paris", "Not Paris.")])
async def test_hooks_get_a_call_as_a_person_changed_it_and_may_deny_it(city: str, text: str) -> None:
    guard, plan = Guard(), a_plan(tools=(weather,))
    events: asyncio.Queue[ControlEvent] = asyncio.Queue()
    context = replace(
        a_context(plan),
        control=RunControl(events.put, permissions=asking(weather.id)),
        extensions=Extensions(RunHooks([("guard", guard)])),
    )
    calls = ToolCalls(plan)
    calls.attach_run(context, a_channel(Billing()))
    start = ToolCallStart(
        tool_call_id="toolu_1", tool_name=weather.id, args={}, parent_tool_call_id="toolu_0"
    )
    calls.on_published(start)

    calling = asyncio.create_task(calls.run(weather.id, {"city": "Oslo"}, "toolu_1"))
    async with asyncio.timeout(PATIENCE_S):
        request = await events.get()
        assert isinstance(request, PermissionRequest)
        assert guard.before == []
        await context.control.approvals.decide(request.request_id, Decision("allow", {"city": city}))
        result = await calling

    call = ToolCall(
        tool_call_id="toolu_1",
        tool_name=weather.id,
        arguments={"city": city},
        effect="read_only",
        parent_tool_call_id="toolu_0",
    )
    assert result.markdown == text
    assert (guard.before, guard.after) == ([call], [(call, result)])


async def test_hooks_get_the_result_of_a_call_that_was_not_valid_and_nothing_before_it() -> None:
    guard, plan = Guard(), a_plan(tools=(weather,))
    calls = ToolCalls(plan)
    context = replace(a_context(plan), extensions=Extensions(RunHooks([("guard", guard)])))
    calls.attach_run(context, a_channel(Billing()))

    result = await calls.run(weather.id, {"town": "Rome"}, "toolu_1")

    assert result.code == "invalid_args"
    assert guard.before == []
    assert [(call.arguments, heard) for call, heard in guard.after] == [({"town": "Rome"}, result)]


@pytest.mark.parametrize(("fails", "text"), [(False, "The token is [hidden]."), (True, "The tool failed.")])
async def test_neither_result_nor_log_contains_the_credential_that_a_call_has_got(
    *, fails: bool, text: str
) -> None:
    async def provider(context: HookContext, /, *, tool_id: str, name: str) -> str:
        return f"{context.graph_id}/{tool_id}/{name}"

    @tool(id="demo__leak", description="Leaks.", effect="read_only")
    async def leak(_args: Nothing, context: ToolContext) -> str:
        told = f"The token is {(await context.credential('mail')).get_secret_value()}."
        if fails:
            raise RuntimeError(told)
        return told

    guard, plan = Guard(), a_plan(tools=(leak,))
    extensions = Extensions(RunHooks([("guard", guard)]), provider)
    calls = ToolCalls(plan)
    calls.attach_run(replace(a_context(plan), extensions=extensions), a_channel(Billing()))
    calls.on_published(ToolCallStart(tool_call_id="toolu_1", tool_name=leak.id, args={}))

    with written_log() as log:
        result = await calls.run(leak.id, {}, "toolu_1")

    assert result.markdown == text
    assert len(log.of("tool.crashed")) == fails
    assert "/mail" not in log.getvalue()
    assert [heard for _, heard in guard.after] == [result]
