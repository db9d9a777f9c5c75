"""What the CLI may run itself: the tools a graph asked for, and of subagents those it defines."""

from collections.abc import Callable, Mapping
from typing import Any

from claude_agent_sdk.types import SyncHookJSONOutput

from app.executors.catalog import GraphSpec
from app.executors.claude_agent.hooks import HookCall
from app.executors.claude_agent.names import AGENT_TOOL

_UNKNOWN_AGENT = "There is no such subagent in this run; there are: {}."


class Permit:
    """Decides about calls of the CLI's own tools; ours pass through the tool runner."""

    def __init__(self, spec: GraphSpec, objection: Callable[[], str | None]) -> None:
        """`objection` says why no tool may run now, in words for the model."""
        self._spec = spec
        self._objection = objection

    async def __call__(self, call: HookCall) -> SyncHookJSONOutput:
        """The hook's answer: nothing where nothing is against the call."""
        if call.tool_name != AGENT_TOOL:
            return {}
        if (objection := self._objection()) is not None:
            return _denied(objection)
        asked: Mapping[str, Any] = call.details.get("tool_input", {})
        # The CLI brings agents of its own, with prompts and tools nobody here has chosen.
        if asked.get("subagent_type") not in self._spec.agents:
            return _denied(_UNKNOWN_AGENT.format(", ".join(sorted(self._spec.agents))))
        # In the background it would outlive the turn that gave it work.
        return _changed({**asked, "run_in_background": False})


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
