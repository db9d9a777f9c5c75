"""What the CLI may run itself: the tools a graph asked for, and of subagents those it defines."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from claude_agent_sdk.types import SyncHookJSONOutput

from app.executors.claude_agent.tools import builtin_tools
from app.executors.claude_agent.tools.builtin_tools import NativeTool
from app.executors.claude_agent.tools.hooks import HookCall
from app.executors.claude_agent.tools.names import AGENT_TOOL
from app.graphs.spec import GraphSpec
from app.tools.policy import ToolCallDenied

_UNKNOWN_AGENT = "There is no such subagent in this run; there are: {}."

Review = Callable[[NativeTool, object, str], Awaitable[object]]
"""The arguments to make a call with; raises `ToolCallDenied`."""


class ToolPermissions:
    """Decides about calls of the CLI's own tools; ours pass through the tool runner."""

    def __init__(self, spec: GraphSpec, objection: Callable[[], str | None], review: Review) -> None:
        """`objection` says why no tool may run now, in words for the model."""
        self._spec = spec
        self._objection = objection
        self._review = review

    async def __call__(self, call: HookCall) -> SyncHookJSONOutput:
        """The hook's answer: nothing where nothing is against the call."""
        asked: Mapping[str, Any] = call.details.get("tool_input", {})
        is_native = call.tool_name in self._spec.native_tools
        if call.tool_name != AGENT_TOOL and not is_native:
            return {}
        if (objection := self._objection()) is not None:
            return _denied(objection)
        if is_native:
            return await self._native(NativeTool(str(call.tool_name)), asked, str(call.tool_call_id))
        # The CLI brings agents of its own, with prompts and tools nobody here has chosen.
        if asked.get("subagent_type") not in self._spec.agents:
            return _denied(_UNKNOWN_AGENT.format(", ".join(sorted(self._spec.agents))))
        # In the background it would outlive the turn that gave it work.
        return _changed({**asked, "run_in_background": False})

    async def _native(self, tool: NativeTool, asked: Mapping[str, Any], call_id: str) -> SyncHookJSONOutput:
        if (objection := builtin_tools.objection(tool.id, asked)) is not None:
            return _denied(objection)
        shown = builtin_tools.shown_args(tool.id, dict(asked))
        try:
            reviewed = await tool.arguments(await self._review(tool, shown, call_id))
        except ToolCallDenied as denied:
            return _denied(str(denied))
        if reviewed == shown:
            # Said to be allowed it would pass by the CLI's own rules.
            return {}
        objection = builtin_tools.objection(tool.id, reviewed)
        return _changed(reviewed) if objection is None else _denied(objection)


def _denied(reason: str) -> SyncHookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def _changed(tool_input: dict[str, Any]) -> SyncHookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "updatedInput": tool_input,
        }
    }
