"""Helpers for tests of tools."""

from typing import Any
from uuid import UUID

from app.ids import AccountId, RunId, RunKey
from app.tools.tool import Tool, ToolContext, ToolOutput

_ACCOUNT = AccountId(UUID(int=0))


async def call_tool(tool: Tool, **arguments: Any) -> ToolOutput[Any]:
    """Call a tool as a run does: with arguments that are validated first, and a context.

    Raises what the tool raises, pydantic's `ValidationError` (a `ValueError`) for wrong arguments, and
    `TypeError` if it returns no `ToolOutput`.
    """
    context = ToolContext(run=RunKey(_ACCOUNT, RunId("test")), tool_call_id="test", request_id=None)
    output = await tool.handler(await tool.arguments(arguments), context)
    if not isinstance(output, ToolOutput):
        message = f"{tool.id} did not return ToolOutput"
        raise TypeError(message)
    return output
