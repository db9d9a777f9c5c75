"""SdkHooks: what the SDK calls before and after the calls of the CLI's own tools, in its full mode."""

from typing import Any

from claude_agent_sdk import HookContext, HookMatcher
from claude_agent_sdk.types import HookEvent, HookInput, HookJSONOutput
from pydantic_core import to_json

from app.executors.claude_agent.programs import LONGEST_TIMER_S
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.permissions import ToolPermissions
from app.storable import storable
from runtally.tools.result import ToolResult

HOOK_TIMEOUT_S = 60.0
"""How long the CLI waits for a hook, besides the time a person may take to decide or answer."""


class SdkHooks:
    """The hooks of a CLI, for the current run of its bridge."""

    def __init__(self, bridge: McpBridge) -> None:
        self._bridge = bridge
        self._permissions = ToolPermissions(
            bridge.calls.plan.spec,
            bridge.denial_reason,
            bridge.review_builtin,
            bridge.ask,
            bridge.report_result,
        )

    def for_sdk(self, *, person_s: float) -> dict[HookEvent, list[HookMatcher]]:
        """As `ClaudeAgentOptions.hooks`; `person_s` is how long a person may take to decide or answer."""
        hooks: dict[HookEvent, Any] = {
            "PreToolUse": self._before,
            "PostToolUse": self._after,
            "PostToolUseFailure": self._after,
        }
        timeout = min(HOOK_TIMEOUT_S + person_s, LONGEST_TIMER_S)
        return {
            name: [HookMatcher(hooks=[hook], timeout=timeout, on_failure="block")]
            for name, hook in hooks.items()
        }

    async def _before(self, given: HookInput, call_id: str | None, _context: HookContext) -> HookJSONOutput:
        call: dict[str, Any] = storable({**given})
        # Of the run that the call began in, also if the CLI has begun to serve another meanwhile.
        with self._bridge.calls.log_context():
            return await self._permissions.decide(
                call["tool_name"], call["tool_input"], storable(str(call_id))
            )

    async def _after(self, given: HookInput, call_id: str | None, _context: HookContext) -> HookJSONOutput:
        call: dict[str, Any] = storable({**given})
        with self._bridge.calls.log_context():
            await self._permissions.report(
                call["tool_name"], call["tool_input"], storable(str(call_id)), _result(call)
            )
        return {}


def _result(call: dict[str, Any]) -> ToolResult:
    """What the CLI's tool returned; clients get nothing of it."""
    if call["hook_event_name"] == "PostToolUseFailure":
        return ToolResult.failed(call["error"])
    response = call["tool_response"]
    return ToolResult(response if isinstance(response, str) else to_json(response).decode(), {})
