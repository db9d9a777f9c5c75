"""A hostile MCP server, and a graph that uses it, for `benchmarks.hostile`."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback

GRAPH = "claude_agents:librarian"
SEARCH = "mcp__runtally__library__search"
BOMB = "^(a+)+$"
"""Catastrophic backtracking for many times `a` followed by something else."""
_SCHEMA = {"type": "object", "properties": {"q": {"type": "string", "pattern": BOMB}}}


@dataclass(slots=True)
class ToolServer:
    """An MCP server by streamable HTTP that misbehaves as configured."""

    url: str = ""
    endless: bool = False
    """Whether its list of tools has no last page."""
    pages: int = field(default=0)
    result_letters: int = 2

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        body = await read_body(receive)
        request: dict[str, Any] = json.loads(body) if scope["method"] == "POST" else {}
        if "id" not in request:
            status, answer = (202, b"") if request else (405, b"")
        else:
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": self._result(request)}
            status, answer = 200, json.dumps(reply).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def _result(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["method"]:
            case "initialize":
                version = request["params"]["protocolVersion"]
                about = {"name": "library", "version": "1"}
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                return self._page()
            case "tools/call":
                return {"content": [{"type": "text", "text": "x" * self.result_letters}]}
            case _:
                return {}

    def _page(self) -> dict[str, Any]:
        self.pages += 1
        search = {"name": "search", "description": "Finds.", "inputSchema": _SCHEMA}
        if not self.endless:
            return {"tools": [search]}
        more = {"name": f"t{self.pages}", "description": "x" * 100_000, "inputSchema": {"type": "object"}}
        return {"tools": [search, more], "nextCursor": str(self.pages)}


@asynccontextmanager
async def a_tool_server() -> AsyncIterator[ToolServer]:
    """Serve on loopback while the body runs."""
    tools = ToolServer()
    async with serve_on_loopback(tools) as url:
        tools.url = f"{url}/mcp"
        yield tools


def graphs_with(directory: Path, url: str) -> Path:
    """A directory with a graph that uses this server."""
    graphs = directory / "graphs"
    graphs.mkdir()
    server = {"type": "http", "url": url, "tools": {"search": "read_only"}}
    head = yaml.safe_dump({"description": "Looks things up.", "mcp_servers": {"library": server}})
    (graphs / "librarian.md").write_text(f"---\n{head}---\nLook it up.\n", encoding="utf-8")
    return graphs
