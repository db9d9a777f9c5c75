"""An MCP server as a program: two tools, one of which nobody may use."""

import asyncio
import os
import sys
from typing import Any

from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server


def a_server(seen: list[tuple[str, dict[str, Any]]] | None = None) -> Server[Any]:
    """`search` answers, `delete_everything` would too; `environment` tells what the program has."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    names = ("search", "delete_everything", "environment", "fails")

    async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool(name=name, description=f"Does {name}.", input_schema=schema) for name in names]
        )

    async def called(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = dict(params.arguments or {})
        if seen is not None:
            seen.append((params.name, arguments))
        answers = {
            "search": f"found {arguments.get('q')}",
            "environment": " ".join(sorted(f"{name}={value}" for name, value in os.environ.items())),
            "fails": "the index is being rebuilt",
        }
        text = types.TextContent(type="text", text=answers.get(params.name, "done"))
        return types.CallToolResult(content=[text], is_error=params.name == "fails")

    return Server("library", version="1", on_list_tools=listed, on_call_tool=called)


async def main() -> None:
    """Serve on standard input and output."""
    server = a_server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
