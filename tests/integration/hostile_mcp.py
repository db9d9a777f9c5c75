"""An MCP server that says whatever a test wants it to, over HTTP; `hostile_program` is one as a program."""

import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback
from tests.integration.hostile_program import HELLO, SEARCH

Result = dict[str, Any] | Iterator[bytes] | None
"""The result of a call, or the bytes of the whole answer; None: there is no answer."""


@dataclass
class HostileServer:
    """Answers lists and calls as it was told, and counts."""

    on_list: Callable[[dict[str, Any]], Result] = lambda _params: {"tools": [SEARCH]}
    on_call: Callable[[dict[str, Any]], Result] = lambda _params: {"content": []}
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    packed: bool = False
    """Whether it compresses its responses, whatever the request accepts."""
    url: str = ""
    methods: list[str] = field(default_factory=list)
    missing: tuple[str, ...] = ()
    """Methods of MCP that are answered with HTTP status 404."""
    is_gone: bool = False
    """Whether a proxy answers in its place."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self.methods.append(scope["method"])
        if self.is_gone:
            await self._send(send, 503, iter([b"no upstream"]), {})
            return
        if scope["method"] != "POST":
            await self._send(send, 405, iter([b""]), self.headers)
            return
        request = json.loads(await read_body(receive))
        self.methods.append(request["method"])
        if request["method"] in self.missing or "id" not in request:
            status = 404 if request["method"] in self.missing else 202
            await self._send(send, status, iter([b""]), {})
            return
        result = self._result(request["method"], request.get("params") or {})
        if result is None:
            # Until the client disconnects.
            await receive()
        elif isinstance(result, dict):
            body = json.dumps({"jsonrpc": "2.0", "id": request["id"], **result}).encode()
            packed = {"content-encoding": "gzip"} if self.packed else {}
            whole = gzip.compress(body) if self.packed else body
            await self._send(send, 200, iter([whole]), {"content-type": "application/json", **packed})
        else:
            await self._send(send, 200, result, self.headers)

    def _result(self, method: str, params: dict[str, Any]) -> Result:
        match method:
            case "initialize":
                return {"result": HELLO}
            case "tools/list":
                listed = self.on_list(params)
                return {"result": listed} if isinstance(listed, dict) else listed
            case "tools/call":
                called = self.on_call(params)
                if not isinstance(called, dict) or "error" in called:
                    return called
                return {"result": called}
            case _:
                return {"error": {"code": -32601, "message": "no such method"}}

    async def _send(self, send: Send, status: int, chunks: Iterator[bytes], headers: dict[str, str]) -> None:
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


Served = TypeVar("Served", bound=HostileServer)


@asynccontextmanager
async def serving(server: Served) -> AsyncIterator[Served]:
    """Serve while the body runs."""
    async with serve_on_loopback(server) as url:
        server.url = f"{url}/mcp"
        yield server
