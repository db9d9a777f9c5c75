"""The older HTTP transport of MCP: one stream for all messages of the server, a POST for each of ours."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import SseServer
from tests.integration.hostile_program import HELLO, SEARCH
from tests.integration.test_tool_servers_that_are_lost import FOUND, Calls
from tests.patience import PATIENCE_S

EVENTS = b"event: other\ndata: x\n\n" * 1_000


class OlderServer:
    """Answers calls, but not the POST of one whose `how` is `silent`; sends `noise` before each message."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.streams = 0
        self.noise: list[bytes] = []
        self._outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] == "GET":
            await self._stream(receive, send)
            return
        request = json.loads(await read_body(receive))
        if request["method"] == "tools/call":
            self.calls.append(request["params"]["arguments"]["how"])
            if self.calls[-1] == "silent":
                await receive()
                return
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        if "id" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], **_answer(request["method"])}
            self._outgoing.put_nowait(answer)

    async def _stream(self, receive: Receive, send: Send) -> None:
        self.streams += 1
        self._outgoing = asyncio.Queue()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(_chunk(b"event: endpoint\ndata: /messages\n\n"))
        writing = asyncio.create_task(self._write(self._outgoing, send))
        while (await receive())["type"] != "http.disconnect":
            pass
        writing.cancel()

    async def _write(self, outgoing: asyncio.Queue[dict[str, Any]], send: Send) -> None:
        while True:
            message = await outgoing.get()
            for noise in self.noise:
                await send(_chunk(noise))
            await send(_chunk(b"event: message\ndata: %s\n\n" % json.dumps(message).encode()))


def _chunk(body: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": True}


def _answer(method: str) -> dict[str, Any]:
    match method:
        case "initialize":
            return {"result": HELLO}
        case "tools/list":
            return {"result": {"tools": [SEARCH]}}
        case "tools/call":
            return {"result": FOUND}
    return {"error": {"code": -32601, "message": "no such method"}}


@asynccontextmanager
async def calls_of(server: OlderServer, *, timeout_s: float) -> AsyncIterator[Calls]:
    async with (
        SchemaChecker(workers=1, check_s=1) as schemas,
        serve_on_loopback(server) as url,
        asyncio.timeout(PATIENCE_S),
    ):
        spec = SseServer(type="sse", url=f"{url}/sse", tools={"search": "read_only"}, timeout_s=timeout_s)
        connections = await McpConnector({}, schemas).connect({"library": spec}, ["library__search"])
        try:
            yield Calls(connections.tools)
        finally:
            await connections.aclose()


async def test_a_message_that_the_server_does_not_accept_keeps_back_no_later_call() -> None:
    server = OlderServer()
    async with calls_of(server, timeout_s=3) as calls:
        unanswered = await calls.call("library__search", how="silent")
        later = await calls.call("library__search", how="another")

    assert unanswered.is_error
    assert (later.markdown, server.streams) == ("found", 2)


@pytest.mark.parametrize(("times", "streams"), [(1, 1), (11, 3)])
async def test_events_that_are_no_messages_end_the_connection_if_there_are_many(
    times: int, streams: int
) -> None:
    server = OlderServer()
    async with calls_of(server, timeout_s=20) as calls:
        server.noise = [EVENTS] * times
        await calls.call("library__search", how="noisy")
        server.noise = []
        later = await calls.call("library__search", how="another")

    assert later.markdown == "found"
    assert server.streams == streams
