"""SdkHooks: hooks on a run's tool calls, prompts and subagents, the same in both modes of the CLI.

In its full mode the CLI calls the SDK's hooks. In its lean mode it calls none, without an error, so
the MCP bridge and the executor report the same events to `notify_in_lean_mode`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import structlog
from claude_agent_sdk import HookContext, HookMatcher, Message, ResultMessage, SystemMessage
from claude_agent_sdk.types import HookEvent, HookInput, HookJSONOutput, SyncHookJSONOutput

from app.executors.claude_agent.process.environment import LONGEST_TIMER_S
from app.executors.port import RunPlan
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
HOOK_TIMEOUT_S = 60.0
"""How long the CLI waits for a hook, besides the time a person may take to decide or answer."""


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call of a hook; `details` is the SDK's input, empty in lean mode."""

    name: HookName
    tool_call_id: str | None = None
    tool_name: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


Observer: TypeAlias = Callable[[HookCall], Awaitable[None]]
"""Gets every call of a hook; an exception is logged and has no other effect."""

Decide: TypeAlias = Callable[[HookCall], Awaitable[SyncHookJSONOutput]]
"""Decides about a call of one of the CLI's own tools; an exception denies the call."""


class SdkHooks:
    """The hooks of a CLI, for its current run."""

    def __init__(self, observers: Sequence[Observer], permissions: Decide, *, full: bool) -> None:
        """`full`: the CLI itself calls them."""
        self._observers = observers
        self._permissions = permissions
        self._full = full
        self._plan: RunPlan | None = None

    def attach_run(self, plan: RunPlan | None) -> None:
        """Calls are for this run from now on; None: for no run."""
        self._plan = plan

    async def notify_in_lean_mode(self, call: HookCall) -> None:
        """Notify every observer if the CLI does not call hooks."""
        if not self._full:
            await self.notify(call)

    async def notify(self, call: HookCall) -> None:
        """Notify every observer."""
        for observer in self._observers:
            try:
                await observer(call)
            except Exception:
                log.warning("hook.observer_failed", hook=call.name, exc_info=True)

    async def observe(self, message: Message) -> None:
        """In lean mode, notify of prompts and ends of turns, which show in the CLI's messages."""
        match message:
            case SystemMessage(subtype="init"):
                await self.notify_in_lean_mode(HookCall("UserPromptSubmit"))
            case ResultMessage():
                await self.notify_in_lean_mode(HookCall("Stop"))
            case _:
                return

    def for_sdk(self, *, person_s: float) -> dict[HookEvent, list[HookMatcher]]:
        """As `ClaudeAgentOptions.hooks`; `person_s` is how long a person may take to decide or answer."""
        timeout = min(HOOK_TIMEOUT_S + person_s, LONGEST_TIMER_S)
        hooks: dict[HookEvent, list[HookMatcher]] = {
            name: [HookMatcher(hooks=[self._hook(name)], timeout=timeout, on_failure="block")]
            for name in get_args(HookName)
        }
        return hooks

    def _hook(self, name: HookName) -> Any:
        async def call_hook(
            details: HookInput, tool_call_id: str | None, _context: HookContext
        ) -> HookJSONOutput:
            fields: Mapping[str, Any] = storable({**details})
            call = HookCall(name, storable(tool_call_id), fields.get("tool_name"), fields)
            with self._context_of_run():
                if self._plan is not None:
                    await self.notify(call)
                return await self._decide(call) if name == "PreToolUse" else {}

        return call_hook

    def _context_of_run(self) -> AbstractContextManager[object]:
        """Log lines name the run that the call began in, also if the CLI serves another one meanwhile."""
        plan = self._plan
        if plan is None:
            return nullcontext()
        return plan.log_context()

    async def _decide(self, call: HookCall) -> SyncHookJSONOutput:
        decision = await self._permissions(call)
        output: Any = decision.get("hookSpecificOutput", {})
        if output.get("permissionDecision") == "deny":
            # The CLI calls no further hook for a denied call.
            await self.notify(replace(call, name="PostToolUseFailure"))
        return decision


async def log_hook_call(call: HookCall) -> None:
    """Log tool calls and the start and end of subagents; never their arguments."""
    if call.name not in {"UserPromptSubmit", "Stop"}:
        log.info("hook.called", hook=call.name, tool=call.tool_name, tool_call_id=call.tool_call_id)
