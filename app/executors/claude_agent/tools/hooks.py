"""What is heard of a run's tools, prompts and subagents while they go on, as one composed set.

In its full mode the CLI calls the SDK's hooks. In its lean mode it calls none, without a word, so
the tool bridge and the executor tell of the same moments themselves.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import structlog
from claude_agent_sdk import HookContext, HookMatcher, Message, ResultMessage, SystemMessage
from claude_agent_sdk.types import HookEvent, HookInput, HookJSONOutput, SyncHookJSONOutput

from app.storable import storable

log = structlog.get_logger(__name__)

HookName = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
]
ANSWER_S = 60.0
"""How long the CLI waits for a hook, besides the person it may have to ask."""


@dataclass(frozen=True, slots=True)
class HookCall:
    """One such moment; `details` are the SDK's own, or what is known of them without it."""

    name: HookName
    tool_call_id: str | None = None
    tool_name: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


Observer: TypeAlias = Callable[[HookCall], Awaitable[None]]
"""Watches; what it raises is logged and changes nothing."""

Decide: TypeAlias = Callable[[HookCall], Awaitable[SyncHookJSONOutput]]
"""Decides about a tool the CLI runs itself; what it raises denies the call."""


class Hooks:
    """One run's hooks."""

    def __init__(self, observers: Sequence[Observer], permit: Decide, *, full: bool) -> None:
        """`full`: the CLI itself calls them."""
        self._observers = observers
        self._permit = permit
        self._full = full

    async def notify_in_lean_mode(self, call: HookCall) -> None:
        """Let every observer know, where the CLI does not."""
        if not self._full:
            await self.notify(call)

    async def notify(self, call: HookCall) -> None:
        """Let every observer know."""
        for observer in self._observers:
            try:
                await observer(call)
            except Exception:
                log.warning("a hook's observer failed", hook=call.name, exc_info=True)

    async def hear(self, message: Message) -> None:
        """Tell of what a lean CLI does not call hooks for, from what it says."""
        match message:
            case SystemMessage(subtype="init"):
                await self.notify_in_lean_mode(HookCall("UserPromptSubmit"))
            case ResultMessage():
                await self.notify_in_lean_mode(HookCall("Stop"))
            case _:
                return

    def for_sdk(self, *, patience_s: float) -> dict[HookEvent, list[HookMatcher]]:
        """The set as the SDK wants it; `patience_s` is how long a person may take to decide."""
        timeout = ANSWER_S + patience_s
        watched: dict[HookEvent, list[HookMatcher]] = {
            name: [HookMatcher(hooks=[self._hook(name)], timeout=timeout, on_failure="block")]
            for name in get_args(HookName)
        }
        return watched

    def _hook(self, name: HookName) -> Any:
        async def called(
            details: HookInput, tool_call_id: str | None, _context: HookContext
        ) -> HookJSONOutput:
            given: Mapping[str, Any] = storable({**details})
            call = HookCall(name, storable(tool_call_id), given.get("tool_name"), given)
            await self.notify(call)
            return await self._decided(call) if name == "PreToolUse" else {}

        return called

    async def _decided(self, call: HookCall) -> SyncHookJSONOutput:
        decision = await self._permit(call)
        output: Any = decision.get("hookSpecificOutput", {})
        if output.get("permissionDecision") == "deny":
            # The CLI calls no hook for a call that was denied.
            await self.notify(replace(call, name="PostToolUseFailure"))
        return decision


@dataclass(slots=True)
class FailureCount:
    """Counts the tool calls that failed."""

    failures: int = 0

    async def __call__(self, call: HookCall) -> None:
        """Observe."""
        self.failures += call.name == "PostToolUseFailure"


async def audit(call: HookCall) -> None:
    """Log what tools are called and how subagents come and go; never with what arguments."""
    if call.name not in {"UserPromptSubmit", "Stop"}:
        log.info("hook", hook=call.name, tool=call.tool_name, tool_call_id=call.tool_call_id)
