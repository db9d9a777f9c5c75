"""McpBridge: a run's tools as an in-process MCP server for its CLI.

A raw `mcp.server.Server` is used because the SDK's own helper hides the tool-call id, which the
CLI sends as metadata, and validates arguments itself: here the `ToolRunner` does.
"""

import asyncio
from typing import Any

import structlog
from claude_agent_sdk.types import McpSdkServerConfig
from mcp import types
from mcp.server import Server

from app.events import AiEvent, ToolCallStart
from app.executors.approvals import ApprovableTool, Approvals
from app.executors.claude_agent.tools.builtin_tools import CliTool
from app.executors.claude_agent.tools.names import SERVER_NAME, bridged_name
from app.executors.claude_agent.tools.sdk_hooks import HookCall, HookName, SdkHooks
from app.executors.port import RunContext, RunPlan
from app.gateway.channel import Channel
from app.serialization.storable import storable
from app.tools.policy import ToolCallDenied, ToolPolicy
from app.tools.result import ToolResult
from app.tools.runner import ToolRunner
from app.tools.tool import Tool, ToolContext

_CALL_ID = "claudecode/toolUseId"
_NO_RUN = "No tool is called before there is a run."
_DENIAL_REASONS = {
    "deadline": "This run's time is up; no tool is called any more.",
    "budget": "This run's budget is used up; no tool is called any more.",
}


class McpBridge:
    """One run's tools and their results.

    A CLI that is started ahead of time gets its bridge before its run is known: `plan` is then that of a
    run with the same graph and tools, and no tool can be called before `attach_run`.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._approvals: Approvals | None = None
        self._channel: Channel | None = None
        self._hooks: SdkHooks | None = None
        self._tools = {tool.id: tool for tool in plan.tools}
        policy = ToolPolicy(frozenset(self._tools), self.denial_reason, self._review)
        self._runner = ToolRunner(self._tools, policy)
        self._published: dict[str, asyncio.Event] = {}
        self._results: dict[str, ToolResult] = {}
        """Results by tool-call id, from the end of the call until `take_result`."""

    def attach_run(self, context: RunContext, channel: Channel, hooks: SdkHooks) -> None:
        """Execute calls for this run from now on."""
        self._plan, self._channel = context.plan, channel
        self._approvals = context.control.approvals
        self._hooks = hooks

    @property
    def longest_call_s(self) -> float:
        """The longest a call may take, including the time to wait for a person's approval."""
        tool_s = max((tool.timeout_s for tool in self._tools.values()), default=0)
        return tool_s + (self._plan.spec.approval_timeout_s if self._plan.spec.approve else 0)

    def on_published(self, event: AiEvent) -> None:
        """An event of this run was published: calls that clients can see now may be reviewed."""
        if isinstance(event, ToolCallStart):
            self._published_event(event.tool_call_id).set()

    def take_result(self, call_id: str) -> ToolResult | None:
        """The result of a call that has ended, once; None if the tool runner did not answer it."""
        self._published.pop(call_id, None)
        return self._results.pop(call_id, None)

    def server(self) -> McpSdkServerConfig | None:
        """The MCP server for `ClaudeAgentOptions`; None for a run without tools."""
        if not self._tools:
            return None
        instance: Server[Any] = Server(
            SERVER_NAME,
            version="1",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        return McpSdkServerConfig(type="sdk", name=SERVER_NAME, instance=instance)

    def denial_reason(self) -> str | None:
        """Why no tool may be called now, for the model; None if tools may be called."""
        if self._channel is None:
            return _NO_RUN
        limit = self._channel.exhausted_limit
        return None if limit is None else _DENIAL_REASONS.get(limit, "This run is over.")

    async def review_builtin(self, tool: CliTool, args: object, call_id: str) -> object:
        """The arguments to call one of the CLI's own tools with; raises `ToolCallDenied`."""
        return await self._review(tool, args, self._tool_context(call_id))

    async def _review(self, tool: ApprovableTool, args: object, context: ToolContext) -> object:
        # An approval request names the tool call, so clients must have got the call's event before.
        await self._published_event(context.tool_call_id).wait()
        if self._approvals is None:
            raise ToolCallDenied(_NO_RUN)
        return await self._approvals.review(tool, args, context)

    def _published_event(self, call_id: str) -> asyncio.Event:
        return self._published.setdefault(call_id, asyncio.Event())

    def _tool_context(self, call_id: str) -> ToolContext:
        request_id = self._plan.request_id
        return ToolContext(run=self._plan.run, tool_call_id=call_id, request_id=request_id)

    async def _notify(self, hook: HookName, tool_id: str, call_id: str) -> None:
        if self._hooks is not None:
            await self._hooks.notify_in_lean_mode(HookCall(hook, call_id, bridged_name(tool_id)))

    async def _list(self, _context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in self._tools.values()])

    async def _call(self, _context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        meta: dict[str, Any] = dict(params.meta or {})
        call_id = storable(str(meta[_CALL_ID]))
        plan = self._plan
        # The CLI may have been started for another run, and this is executed in its context.
        with structlog.contextvars.bound_contextvars(run_id=plan.run.run_id, request_id=plan.request_id):
            await self._notify("PreToolUse", params.name, call_id)
            args = storable(params.arguments or {})
            result = await self._runner.run(params.name, args, self._tool_context(call_id))
            self._results[call_id] = result
            hook: HookName = "PostToolUseFailure" if result.is_error else "PostToolUse"
            await self._notify(hook, params.name, call_id)
        text = types.TextContent(type="text", text=result.markdown)
        return types.CallToolResult(content=[text], is_error=result.is_error)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.id,
        description=tool.description,
        input_schema=tool.input_schema,
        # The CLI runs the calls of one message in parallel only if the tool is read-only.
        annotations=types.ToolAnnotations(read_only_hint=tool.effect == "read_only"),
        # Above this many characters the CLI would show the model a preview instead of the result.
        _meta={"anthropic/maxResultSizeChars": tool.max_result_bytes},
    )
