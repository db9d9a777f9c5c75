"""Tools that do nothing, and calls of tools."""

from pydantic import BaseModel

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from runtally.tools.result import ToolResult
from runtally.tools.tool import Effect, Tool, ToolContext, ToolOutput, tool

CONTEXT = ToolContext(
    run=RunKey(AccountId(new_uuid()), RunId("r1")), tool_call_id="call-1", request_id="request-1"
)


class Nothing(BaseModel):
    """No arguments, or no results."""


def a_tool(tool_id: str, effect: Effect = "read_only") -> Tool:
    """A tool that does nothing."""

    @tool(id=tool_id, description="Does nothing.", effect=effect, redact=())
    async def nothing(_args: Nothing, _context: ToolContext) -> ToolOutput[Nothing]:
        return ToolOutput(markdown="done", structured=Nothing())

    return nothing


async def call(called: Tool, args: object) -> ToolResult:
    """Call a tool as the model does."""
    return await ToolRunner({called.id: called}, ToolPolicy(frozenset({called.id}))).run(
        called.id, args, CONTEXT
    )
