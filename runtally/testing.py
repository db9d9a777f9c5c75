"""Helpers for tests of tools."""

from typing import Any, NamedTuple
from uuid import UUID

from runtally.tools.tool import Tool, ToolContext, ToolOutput, output_of


class _TestRun(NamedTuple):
    account_id: UUID
    run_id: str


async def call_tool(tool: Tool, **arguments: Any) -> ToolOutput[Any]:
    """Call a tool as a run does: with arguments that are validated first, and a context.

    Raises what the tool raises, pydantic's `ValidationError` (a `ValueError`) for wrong arguments, and
    `TypeError` if it does not return what its annotation says.
    """
    context = ToolContext(run=_TestRun(UUID(int=0), "test"), tool_call_id="test", request_id=None)
    return output_of(tool, await tool.handler(await tool.arguments(arguments), context))
