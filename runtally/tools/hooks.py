"""Hooks: the interface for operators whose code observes runs and tool calls, or denies calls."""

from dataclasses import dataclass
from typing import Any

from runtally.tools.result import ToolResult
from runtally.tools.tool import Effect, HookContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool, whoever executes it."""

    tool_call_id: str
    tool_name: str
    """As clients see it."""
    arguments: dict[str, Any]
    """A copy: of those that are executed, also if a person changed them; else of what the model wrote."""
    effect: Effect | None
    """None for a tool that the client executes."""
    parent_tool_call_id: str | None = None
    """The call by which the subagent was started that makes this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    """How the execution of a run ended, in the words that its client gets."""

    ok: bool
    finish_reason: str
    error: str | None
    content: str
    """The answer; without one the last text, as far as it was sent."""


class Hooks:
    """An operator's hooks on every run of a server: override what is needed.

    An installed package names its class in an entry point of the group `runtally.hooks`. One object serves
    all runs. It is a part of the server: what blocks in it blocks the server's event loop.

    A method that raises, or takes longer than five seconds, is logged and counted. It ends no run; a call
    that `before_tool` could not check is denied.
    """

    async def session_start(self, context: HookContext) -> None:
        """A run begins to be executed: before the model is called."""

    async def session_end(self, context: HookContext, result: SessionResult) -> None:
        """The run has been executed; one that waits without a process has not. `context` is as it began."""

    async def before_tool(self, context: HookContext, call: ToolCall) -> str | None:  # noqa: ARG002
        """Return a text to deny the call: the model gets it as the call's error. None lets it through.

        Called last, after the graph's rules and the approvals.
        """
        return None

    async def after_tool(self, context: HookContext, call: ToolCall, result: ToolResult) -> None:
        """A call has a result: that of the tool, or an error, also of a call that was denied.

        Not called for a call that ends with its run.
        """
