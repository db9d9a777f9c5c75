"""McpBridge: a run's tools as an in-process MCP server for its CLI.

A raw `mcp.server.Server` is used because the SDK's own helper hides the tool-call id, which the
CLI sends as metadata, and validates arguments itself: here the `ToolRunner` does.
"""

from typing import Any

from claude_agent_sdk.types import McpSdkServerConfig
from mcp import types
from mcp.server import Server

from app.executors.approvals import ApprovableTool
from app.executors.claude_agent.tools.names import SERVER_NAME
from app.executors.port import RunContext, RunPlan
from app.executors.tools.calls import ToolCalls
from app.executors.tools.questions import ASK_USER_QUESTION, without_questions
from app.gateway.channel import Channel
from app.storable import storable
from runtally.tools.content import ToolContent, ToolImage, ToolText
from runtally.tools.result import ToolResult
from runtally.tools.tool import Tool

_CALL_ID = "claudecode/toolUseId"


class McpBridge:
    """The tools of a CLI's current run."""

    def __init__(self, plan: RunPlan) -> None:
        """`plan` may be that of a run with the same graph and tools, see `ToolCalls`."""
        self.calls = ToolCalls(plan)
        """Those of the current run."""

    def attach_run(self, context: RunContext, channel: Channel) -> None:
        """Execute calls for this run from now on; its tools are described as those before."""
        self.calls = ToolCalls(context.plan)
        self.calls.attach_run(context, channel)

    def detach_run(self) -> None:
        """Execute no calls until another run is attached."""
        self.calls = ToolCalls(self.calls.plan)

    def denial_reason(self) -> str | None:
        """See `ToolCalls`; of the current run."""
        return self.calls.denial_reason()

    async def review_builtin(self, tool: ApprovableTool, args: object, call_id: str) -> object:
        """See `ToolCalls`; of the current run."""
        return await self.calls.review_builtin(tool, args, call_id)

    async def report_result(
        self, tool: ApprovableTool, args: object, call_id: str, result: ToolResult
    ) -> None:
        """See `ToolCalls`; of the current run."""
        await self.calls.report_result(tool, args, call_id, result)

    async def ask(self, args: object, call_id: str) -> ToolResult:
        """The answers to the questions of the CLI's own tool; of the current run."""
        return await self.calls.run(ASK_USER_QUESTION, args, call_id)

    @property
    def descriptions(self) -> list[tuple[str, bool, int]]:
        """Everything of the tools that is described to the CLI, see `_described`."""
        tools = without_questions(self.calls.plan)
        return [(tool.definition, tool.read_only, tool.max_result_bytes) for tool in tools]

    def server(self) -> McpSdkServerConfig | None:
        """The MCP server for `ClaudeAgentOptions`; None for a run without tools."""
        if not without_questions(self.calls.plan):
            return None
        instance: Server[Any] = Server(
            SERVER_NAME,
            version="1",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        return McpSdkServerConfig(type="sdk", name=SERVER_NAME, instance=instance)

    async def _list(self, _context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in without_questions(self.calls.plan)])

    async def _call(self, _context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        meta: dict[str, Any] = dict(params.meta or {})
        call_id = storable(str(meta[_CALL_ID]))
        calls = self.calls
        # Of the run that the call began in, also if the CLI has begun to serve another meanwhile.
        with calls.log_context():
            result = await calls.run(params.name, storable(params.arguments or {}), call_id)
        blocks = [_block(each) for each in result.for_model] or [types.TextContent(type="text", text="")]
        return types.CallToolResult(content=blocks, is_error=result.is_error)


def _block(content: ToolContent) -> types.ContentBlock:
    match content:
        case ToolText(text):
            return types.TextContent(type="text", text=text)
        case ToolImage(media_type, data):
            return types.ImageContent(type="image", mime_type=media_type, data=data)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.id,
        description=tool.description,
        input_schema=tool.input_schema,
        # The CLI runs the calls of one message in parallel only if the tool is read-only.
        annotations=types.ToolAnnotations(read_only_hint=tool.read_only),
        # Above this many characters the CLI would show the model a preview instead of the result.
        _meta={"anthropic/maxResultSizeChars": tool.max_result_bytes},
    )
