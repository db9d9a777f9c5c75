"""An MCP server that asks during a call: as a program, or over HTTP; of either generation of the protocol."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from app.platform.server.loopback import serve_on_loopback

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "seats": {"type": "integer", "minimum": 1, "maximum": 8, "title": "Seats"},
        "meal": {"type": "string", "enum": ["fish", "none"], "enumNames": ["Fish", "No meal"]},
        "window": {"type": "boolean", "title": "Window?"},
        "note": {"type": "string"},
    },
    "required": ["seats", "meal", "window"],
}


def a_server(*, legacy: bool = False) -> Server[Any]:
    """`book` asks for details and returns what it got; `pay` asks to open a web page."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}

    async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool(name=name, description=name, input_schema=schema) for name in ("book", "pay")]
        )

    async def called(context: Any, params: types.CallToolRequestParams) -> Any:
        if params.name == "pay":
            asked: Any = types.ElicitRequestURLParams(
                message="Pay here", url="http://127.0.0.1/pay", elicitation_id="1"
            )
        else:
            asked = types.ElicitRequestFormParams(message="Approve <b>this</b>?", requested_schema=FORM)
        if context.protocol_version < "2026-07-28":
            metadata = ServerMessageMetadata(related_request_id=context.request_id)
            request = types.ElicitRequest(params=asked)
            answer = await context.session.send_request(request, types.ElicitResult, metadata=metadata)
        elif params.input_responses is None:
            requests: Any = {"details": types.ElicitRequest(params=asked)}
            return types.InputRequiredResult(input_requests=requests, request_state="state")
        else:
            answer = params.input_responses["details"]
        text = f"{answer.action} {sorted((answer.content or {}).items())}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server = Server[Any]("desk", version="1", on_list_tools=listed, on_call_tool=called)
    if legacy:
        server.add_request_handler("server/discover", types.RequestParams, _unknown)
    return server


@asynccontextmanager
async def served(*, legacy: bool = False) -> AsyncIterator[str]:
    """Serve over HTTP; yields the URL."""
    app = a_server(legacy=legacy).streamable_http_app()
    async with app.router.lifespan_context(app), serve_on_loopback(app) as url:
        yield f"{url}/mcp"


async def _unknown(_context: Any, _params: Any) -> Any:
    raise MCPError(types.METHOD_NOT_FOUND, "Method not found")


async def serve(server: Server[Any], reading: Any, writing: Any, *, legacy: bool) -> None:
    """Serve one connection, whose first message would settle the generation."""
    kept, requests = anyio.create_memory_object_stream[Any](0)
    forward = _reject_discovery if legacy else _forward
    async with reading, writing, requests, anyio.create_task_group() as tasks:
        tasks.start_soon(forward, reading, writing, kept)
        await server.run(requests, writing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _reject_discovery(reading: Any, writing: Any, kept: Any) -> None:
    unknown = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")
    async with kept:
        async for item in reading:
            if getattr(item.message, "method", "") == "server/discover":
                error = types.JSONRPCError(jsonrpc="2.0", id=item.message.id, error=unknown)
                await writing.send(SessionMessage(error))
            else:
                await kept.send(item)


async def _forward(reading: Any, _writing: Any, kept: Any) -> None:
    async with kept:
        async for item in reading:
            await kept.send(item)


async def main() -> None:
    """Serve on standard input and output."""
    async with stdio_server() as (reading, writing):
        await serve(a_server(), reading, writing, legacy="legacy" in sys.argv)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
