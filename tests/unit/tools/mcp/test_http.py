"""Requests to MCP servers that nothing must wait for."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from app.tools.mcp.http import CLOSE_S, McpHttpClient
from tests.patience import PATIENCE_S
from tests.virtual_time import in_virtual_time

URL = "http://127.0.0.1/mcp"
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@dataclass
class Slow(httpx2.AsyncBaseTransport, httpx2.AsyncByteStream):
    """Answers with this status after a while, and never ends its answer."""

    status: int = 200
    pause_s: float = 0
    requests: list[httpx2.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        await asyncio.sleep(self.pause_s)
        return httpx2.Response(self.status, headers={"location": URL}, stream=self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await asyncio.get_running_loop().create_future()
        yield b""


async def followed(http: httpx2.AsyncClient, method: str, **content: Any) -> httpx2.Response:
    """The answer after up to 20 redirections, which the library follows one by one."""
    answer = await http.send(http.build_request(method, URL, **content), stream=True)
    for _ in range(20):
        if answer.next_request is None:
            break
        answer = await http.send(answer.next_request, stream=True)
    return answer


@pytest.mark.parametrize(
    "server", [Slow(), Slow(307, 0.3), Slow(pause_s=10 * PATIENCE_S)], ids=["answer", "redirects", "silence"]
)
@in_virtual_time
async def test_the_end_of_a_session_takes_a_second_at_most(server: Slow) -> None:
    began = asyncio.get_running_loop().time()
    async with McpHttpClient(transport=server, timeout=60) as http:
        answer = await followed(http, "DELETE")

    assert answer.is_success
    assert server.requests[0].method == "DELETE"
    # Followed to the end, redirections would take six seconds.
    assert asyncio.get_running_loop().time() - began <= CLOSE_S


@pytest.mark.parametrize("server", [Slow(), Slow(pause_s=10 * PATIENCE_S)], ids=["answer", "silence"])
@in_virtual_time
async def test_a_message_that_is_no_request_does_not_wait_for_its_answer(server: Slow) -> None:
    async with McpHttpClient(transport=server, timeout=0.2) as http, asyncio.timeout(PATIENCE_S):
        notified = await followed(http, "POST", json=NOTIFICATION)

    assert notified.status_code == 202


async def test_a_message_that_is_no_request_follows_a_redirection() -> None:
    server = Slow(307)
    async with McpHttpClient(transport=server, timeout=5) as http, asyncio.timeout(PATIENCE_S):
        await followed(http, "POST", json=NOTIFICATION)

    assert len(server.requests) == 21
