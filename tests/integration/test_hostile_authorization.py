"""Servers that answer a request without authorization, or for a token, without end."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.responses import StreamingResponse

from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from app.tools.mcp.connection import McpServerUnavailable
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import HttpServer, SseServer
from tests.integration.hostile_program import without_end
from tests.integration.test_hostile_tool_servers import MB, most_memory
from tests.integration.test_tool_servers_with_oauth import SECRET, Protected


@dataclass
class Endless(Protected):
    """Answers requests to some paths without end."""

    status: int = 401
    endless: tuple[str, ...] = ("/mcp",)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] not in self.endless:
            await super().__call__(scope, receive, send)
            return
        self.paths.append(scope["path"])
        await StreamingResponse(without_end(), self.status)(scope, receive, send)


async def refused(connector: McpConnector, server: Protected, kind: str) -> None:
    """Connecting fails."""
    of_kind: Any = HttpServer if kind == "http" else SseServer
    client = {"client_id": "runtally", "client_secret": "${CLIENT}"}
    spec = of_kind(type=kind, url=f"{server.url}/mcp", tools={"search": "read_only"}, oauth=client)
    with pytest.raises(McpServerUnavailable):
        await connector.connect({"library": spec}, ["library__search"])


@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/mcp", 401),
        ("/mcp", 500),
        ("/token", 200),
        ("/token", 400),
        ("/.well-known/oauth-authorization-server", 200),
        ("/.well-known/oauth-protected-resource/mcp", 200),
    ],
)
async def test_an_answer_without_end_is_not_kept(
    schemas: SchemaChecker, kind: str, path: str, status: int
) -> None:
    connector = McpConnector({"CLIENT": SecretStr(SECRET)}, schemas)
    server = Endless(status=status, endless=(path,))
    async with serve_on_loopback(server) as server.url:
        grown = await most_memory(refused(connector, server, kind))

    assert path in server.paths
    assert grown < 40 * MB, f"{grown / MB:.0f} MB"
