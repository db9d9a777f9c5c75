"""ToolPermissions: decides about calls of the CLI's own tools, and which subagents may be started."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from claude_agent_sdk.types import SyncHookJSONOutput

from app.executors.claude_agent.tools import builtin_tools
from app.executors.claude_agent.tools.builtin_tools import CliTool
from app.executors.tools.questions import ASK_USER_QUESTION
from app.graphs.spec import AGENT_TOOL, GraphSpec
from app.tools.policy import ToolCallDenied
from runtally.tools.result import ToolResult

_UNKNOWN_AGENT = "There is no such subagent in this run; there are: {}."

ReviewCliTool: TypeAlias = Callable[[CliTool, object, str], Awaitable[object]]
"""Takes tool, arguments and tool-call id; returns the arguments to use or raises `ToolCallDenied`."""

ReportResult: TypeAlias = Callable[[CliTool, object, str, ToolResult], Awaitable[None]]
"""Takes tool, arguments, tool-call id and result."""


class ToolPermissions:
    """Decides about calls of the CLI's own tools; calls of our tools are decided by the tool runner."""

    def __init__(
        self,
        spec: GraphSpec,
        run_denial_reason: Callable[[], str | None],
        review: ReviewCliTool,
        ask: Callable[[object, str], Awaitable[ToolResult]],
        report: ReportResult,
    ) -> None:
        """`run_denial_reason` returns why the run may call no tool now, for the model.

        `ask` takes the arguments and the id of a call that asks a person.
        """
        self._spec = spec
        self._ask = ask
        self._run_denial_reason = run_denial_reason
        self._review = review
        self._report = report

    async def decide(self, name: str, args: Mapping[str, Any], call_id: str) -> SyncHookJSONOutput:
        """The output of a PreToolUse hook: empty if the CLI's own rules may decide."""
        if name == ASK_USER_QUESTION and self._spec.questions:
            return await self._answer(args, call_id)
        if not self._covers(name):
            return {}
        if (reason := self._run_denial_reason()) is None:
            try:
                return await self._decide(CliTool(name), args, call_id)
            except ToolCallDenied as denied:
                reason = str(denied)
        # The CLI calls no other hook for a denied call.
        await self.report(name, args, call_id, ToolResult.failed(reason, "policy_denied"))
        return _deny(reason)

    async def report(self, name: str, args: Mapping[str, Any], call_id: str, result: ToolResult) -> None:
        if self._covers(name):
            visible = builtin_tools.visible_args(name, dict(args))
            await self._report(CliTool(name), visible, call_id, result)

    def _covers(self, name: str) -> bool:
        return name == AGENT_TOOL or name in self._spec.native_tools

    async def _answer(self, args: Mapping[str, Any], call_id: str) -> SyncHookJSONOutput:
        """The answers are put into the arguments, as the CLI's own dialog does."""
        result = await self._ask(dict(args), call_id)
        if result.is_error or not isinstance(result.visible, dict):
            return _deny(result.markdown)
        return _allow({"questions": args["questions"], **result.visible})

    async def _decide(self, tool: CliTool, args: Mapping[str, Any], call_id: str) -> SyncHookJSONOutput:
        self._require_in_bounds(tool, args)
        visible = builtin_tools.visible_args(tool.id, dict(args))
        reviewed = await tool.arguments(await self._review(tool, visible, call_id))
        self._require_in_bounds(tool, reviewed)
        if tool.id == AGENT_TOOL:
            # In the background it would outlive the turn that started it.
            return _allow({**reviewed, "run_in_background": False})
        # An explicit "allow" would override the CLI's own permission rules.
        return {} if reviewed == visible else _allow(reviewed)

    def _require_in_bounds(self, tool: CliTool, args: Mapping[str, Any]) -> None:
        """Raise `ToolCallDenied` for what no rule and no person can allow."""
        if tool.id != AGENT_TOOL:
            reason = builtin_tools.denial_reason(tool.id, args)
        # The CLI brings subagents of its own, with prompts and tools that no graph has chosen.
        elif args.get("subagent_type") not in self._spec.agents:
            reason = _UNKNOWN_AGENT.format(", ".join(sorted(self._spec.agents)))
        else:
            reason = None
        if reason is not None:
            raise ToolCallDenied(reason)


def _deny(reason: str) -> SyncHookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def _allow(tool_input: dict[str, Any]) -> SyncHookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "updatedInput": tool_input,
        }
    }
