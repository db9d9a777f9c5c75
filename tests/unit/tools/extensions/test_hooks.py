"""Whatever an operator's hook does, the run goes on, and a call that it could not check is denied."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog

from app.tools.extensions.hooks import RunHooks
from runtally.tools.hooks import Hooks, SessionResult, ToolCall
from runtally.tools.result import ToolResult
from runtally.tools.tool import HookContext
from tests.unit.tools.calling import CONTEXT
from tests.virtual_time import in_virtual_time

UNCHECKED = "This call is denied: a check of this server failed."


class Does(Hooks):
    """Does the same in every method."""

    def __init__(self, what: Callable[[Any], Awaitable[Any]]) -> None:
        self._what = what

    async def session_start(self, context: HookContext) -> None:
        await self._what(context)

    async def session_end(self, _context: HookContext, result: SessionResult) -> None:
        await self._what(result)

    async def before_tool(self, _context: HookContext, call: ToolCall) -> str | None:
        answer: str | None = await self._what(call)
        return answer

    async def after_tool(self, _context: HookContext, call: ToolCall, result: ToolResult) -> None:
        await self._what((call, result))


def a_call() -> ToolCall:
    return ToolCall(
        tool_call_id="toolu_1", tool_name="office__send", arguments={"to": ["eve"]}, effect="read_only"
    )


async def each_method(hooks: RunHooks) -> str | None:
    """Call every method; what `before_tool` returns."""
    await hooks.session_start(CONTEXT)
    denial = await hooks.before_tool(CONTEXT, a_call())
    await hooks.after_tool(CONTEXT, a_call(), ToolResult("text", {"a": [1]}))
    await hooks.session_end(CONTEXT, SessionResult(ok=True, finish_reason="stop", error=None, content="text"))
    return denial


async def raises(_given: Any) -> None:
    raise RuntimeError("is broken")


async def leaves(_given: Any) -> None:
    raise SystemExit(1)


async def interrupts(_given: Any) -> None:
    raise KeyboardInterrupt


async def is_cancelled(_given: Any) -> None:
    raise asyncio.CancelledError


async def cancels_itself(_given: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


async def never_returns(_given: Any) -> None:
    await asyncio.Event().wait()


async def ignores_cancellation(_given: Any) -> None:
    for _ in range(3):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            continue


def is_not_async(_given: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (raises, "raised RuntimeError"),
        (leaves, "raised SystemExit"),
        (interrupts, "raised KeyboardInterrupt"),
        (is_cancelled, "raised CancelledError"),
        (cancels_itself, "raised CancelledError"),
        (never_returns, "did not return within 5 seconds"),
        (ignores_cancellation, "did not return within 5 seconds"),
        (is_not_async, "raised TypeError"),
    ],
)
@in_virtual_time
async def test_a_hook_that_fails_is_logged_denies_its_call_and_disturbs_no_other(
    what: Callable[[Any], Awaitable[Any]], reason: str
) -> None:
    heard: list[object] = []

    async def records(given: object) -> None:
        heard.append(given)

    with structlog.testing.capture_logs() as lines:
        denial = await each_method(RunHooks([("broken", Does(what)), ("other", Does(records))]))

    assert denial == UNCHECKED
    assert len(heard) == 4
    failed = [(line["event"], line["hook"], line["method"], line["reason"]) for line in lines]
    assert failed == [
        ("hook.failed", "broken", method, reason)
        for method in ("session_start", "before_tool", "after_tool", "session_end")
    ]


@in_virtual_time
async def test_hooks_wait_at_the_same_time() -> None:
    loop = asyncio.get_running_loop()
    hooks = RunHooks([(str(number), Does(never_returns)) for number in range(10)])

    await hooks.session_start(CONTEXT)

    assert loop.time() == pytest.approx(5)


@in_virtual_time
async def test_a_run_that_is_cancelled_waits_for_no_hook() -> None:
    calling = asyncio.create_task(RunHooks([("slow", Does(never_returns))]).session_start(CONTEXT))
    await asyncio.sleep(1)
    calling.cancel()
    await asyncio.wait({calling})

    assert calling.cancelled()


@pytest.mark.parametrize(
    ("answer", "denial"),
    [
        (None, None),
        ("Not to Eve.", "Not to Eve."),
        (" \n", "This server denies this call."),
        ("\ud800", "\N{REPLACEMENT CHARACTER}"),
        (False, UNCHECKED),
        (True, UNCHECKED),
        (b"no", UNCHECKED),
        ({"deny": True}, UNCHECKED),
    ],
)
async def test_a_call_is_denied_by_a_text_and_by_whatever_is_none(answer: Any, denial: str | None) -> None:
    async def answers(_given: Any) -> Any:
        return answer

    async def allows(_given: Any) -> None:
        return None

    hooks = RunHooks([("first", Does(allows)), ("second", Does(answers))])

    assert await hooks.before_tool(CONTEXT, a_call()) == denial


async def test_what_a_hook_changes_is_its_own() -> None:
    call, result = a_call(), ToolResult("text", {"a": [1]})

    async def mutates(given: Any) -> None:
        of_call = given if isinstance(given, ToolCall) else given[0]
        of_call.arguments["to"].append("mallory")
        of_call.arguments["bcc"] = "mallory"
        if of_call is not given:
            given[1].visible["a"].append(2)

    hooks = RunHooks([("first", Does(mutates)), ("second", Does(mutates))])
    await hooks.before_tool(CONTEXT, call)
    await hooks.after_tool(CONTEXT, call, result)

    assert (call, result.visible) == (a_call(), {"a": [1]})


def test_the_base_class_observes_nothing_and_denies_nothing() -> None:
    assert asyncio.run(each_method(RunHooks([("idle", Hooks())]))) is None
