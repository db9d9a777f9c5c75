"""A server of the MCP package over HTTP, as an application of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import types
from mcp.server.mcpserver import Audio, Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from app.platform.server.loopback import serve_on_loopback
from tests.clients.mcp_kinds import PIXEL


def a_server() -> MCPServer:
    """A server with a tool for each kind of result; each can be served once."""
    server = MCPServer("fast", instructions="Be quick.")

    @server.tool(structured_output=False)
    def everything() -> list[Any]:
        """Return a text, an image, a sound and a file."""
        note = types.TextResourceContents(uri="file:///note", mime_type="text/plain", text="in the file")
        file = types.EmbeddedResource(type="resource", resource=note)
        return ["text", Image(data=PIXEL, format="png"), Audio(data=b"RIFF", format="wav"), file]

    @server.tool()
    def stock(shelf: int) -> dict[str, int]:
        """Return structured content."""
        return {"shelf": shelf, "stock": 3}

    @server.tool()
    def refuse() -> str:
        """Fail with a message for the model."""
        message = "the shelf is locked"
        raise ToolError(message)

    @server.tool()
    async def count(context: Context) -> str:
        """Report progress."""
        for step in range(2):
            await context.report_progress(step + 1, 2, f"fast shelf {step + 1}")
        return "counted"

    return server


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """Serve on a free port; yields the URL."""
    app = a_server().streamable_http_app()
    async with app.router.lifespan_context(app), serve_on_loopback(app) as url:
        yield f"{url}/mcp"
