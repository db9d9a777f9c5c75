"""RunHooks: calls the operator's hooks, which can deny a call of a tool and have no other effect on a run."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Final, TypeVar

import structlog

from app.platform.metrics.runs import RunMetrics
from app.storable import storable
from app.tools.extensions.calling import ExtensionFailed, call_extension
from runtally.tools.hooks import Hooks, SessionResult, ToolCall
from runtally.tools.result import ToolResult
from runtally.tools.tool import HookContext

log = structlog.get_logger(__name__)
T = TypeVar("T")

_DENIED: Final = "This server denies this call."
_UNCHECKED: Final = "This call is denied: a check of this server failed."


class RunHooks:
    """The hooks of this server, each with a name; called at the same time, each with copies of its own."""

    def __init__(self, hooks: Sequence[tuple[str, Hooks]] = (), metrics: RunMetrics | None = None) -> None:
        self._hooks = hooks
        self._metrics = metrics or RunMetrics()

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [name for name, _ in self._hooks]

    async def session_start(self, context: HookContext) -> None:
        await self._call("session_start", lambda each: each.session_start(context), on_failure=None)

    async def session_end(self, context: HookContext, result: SessionResult) -> None:
        await self._call("session_end", lambda each: each.session_end(context, result), on_failure=None)

    async def before_tool(self, context: HookContext, call: ToolCall) -> str | None:
        """Why a call is denied, for the model; None if no hook denies it."""
        on_failure: str | None = _UNCHECKED
        answers = await self._call(
            "before_tool", lambda each: _denial(each, context, call), on_failure=on_failure
        )
        return next((answer for answer in answers if answer is not None), None)

    async def after_tool(self, context: HookContext, call: ToolCall, result: ToolResult) -> None:
        await self._call(
            "after_tool",
            lambda each: each.after_tool(
                context, _copy(call), replace(result, visible=deepcopy(result.visible))
            ),
            on_failure=None,
        )

    async def _call(
        self, method: str, call: Callable[[Hooks], Awaitable[T]], *, on_failure: T
    ) -> Sequence[T]:
        async def answer(name: str, hooks: Hooks) -> T:
            try:
                return await call_extension(lambda: call(hooks))
            except ExtensionFailed as error:
                log.warning(
                    "hook.failed", hook=name, method=method, reason=str(error), exc_info=error.__cause__
                )
                self._metrics.hook_failed(name, method)
                return on_failure

        return await asyncio.gather(*(answer(name, hooks) for name, hooks in self._hooks))


async def _denial(hooks: Hooks, context: HookContext, call: ToolCall) -> str | None:
    answer: object = await hooks.before_tool(context, _copy(call))
    if answer is None:
        return None
    if not isinstance(answer, str):
        raise TypeError(f"before_tool returned neither a text nor None: {type(answer).__name__}")
    return storable(answer.strip()) or _DENIED


def _copy(call: ToolCall) -> ToolCall:
    return replace(call, arguments=deepcopy(call.arguments))
