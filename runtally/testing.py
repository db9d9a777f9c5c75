"""Helpers for tests of tools."""

from typing import Any
from uuid import UUID

from app.ids import AccountId, RunId, RunKey
from app.tools.tool import Tool, ToolContext, ToolOutput

_ACCOUNT = AccountId(UUID(int=0))


async def call_tool(tool: Tool, **arguments: Any) -> ToolOutput[Any]:
    """Call a tool as a run does: with arguments that are validated first, and a context.

    Raises what the tool raises, and pydantic's `ValidationError` (a `ValueError`) for wrong arguments.
    """
    context = ToolContext(run=RunKey(_ACCOUNT, RunId("test")), tool_call_id="test", request_id=None)
    return await tool.handler(await tool.arguments(arguments), context)
