"""A server of the package `fastmcp`, as an application: tools whose results are of every kind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Audio, File, Image

from app.server.loopback import serve_on_loopback
from tests.clients.mcp_kinds import PIXEL

server = FastMCP("fast", instructions="Be quick.")


@server.tool
def everything() -> list[Any]:
    """Return a text, an image, a sound and a file."""
    file = File(data=b"in the file", format="plain", name="note")
    return ["text", Image(data=PIXEL, format="png"), Audio(data=b"RIFF", format="wav"), file]


@server.tool
def stock(shelf: int) -> dict[str, int]:
    """Return structured content."""
    return {"shelf": shelf, "stock": 3}


@server.tool
def refuse() -> str:
    """Fail with a message for the model."""
    message = "the shelf is locked"
    raise ToolError(message)


@server.tool
async def count(context: Context) -> str:
    """Report progress."""
    for step in range(2):
        await context.report_progress(step + 1, 2, f"fast shelf {step + 1}")
    return "counted"


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """Serve on a free port over HTTP; yields the URL."""
    app = server.http_app(path="/mcp")
    async with app.lifespan(app), serve_on_loopback(app) as url:
        yield f"{url}/mcp"
