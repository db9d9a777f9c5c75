"""An MCP server that says whatever a test wants it to: over HTTP here, as a program with `main`."""

import gzip
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback

SEARCH = {"name": "search", "description": "Searches.", "inputSchema": {"type": "object"}}
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "library", "version": "1"},
}

NOISE = {
    "noise": b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}\n',
    "requests": b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
    "answers to nobody": b'{"jsonrpc": "2.0", "id": 4242, "result": {}}\n',
    "garbage": b"x\n",
}

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


def without_end(start: bytes = b"", chunk: bytes = b"x" * 65_536, *, megabytes: int = 200) -> Iterator[bytes]:
    """So many megabytes that they may pass for endless."""
    yield start
    for _ in range(megabytes * 16):
        yield chunk


STAYS = ("stays", "stays without tools", "stays silent")
"""Programs that end neither with their input nor by SIGTERM."""


def main(how: str) -> None:
    """Be a program: answer the handshake, then do what it takes to hurt."""
    if how in STAYS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request:
            _answer(request, how)
    while how in STAYS:
        time.sleep(60)


def _answer(request: dict[str, Any], how: str) -> None:
    match request["method"]:
        case "initialize":
            _respond(request, result=HELLO)
        case "tools/list":
            _answer_list(request, how)
        case "tools/call":
            _answer_call(request, how)
        case _:
            _refuse(request)


def _answer_list(request: dict[str, Any], how: str) -> None:
    match how:
        case "endless line":
            _write_without_end()
        case _ if how in NOISE:
            while True:
                os.write(1, NOISE[how] * 500)
        case "stays without tools":
            _respond(request, result={"tools": []})
        case "stays silent":
            pass
        case _:
            _respond(request, result={"tools": [SEARCH]})


def _answer_call(request: dict[str, Any], how: str) -> None:
    pid = {"content": [{"type": "text", "text": str(os.getpid())}]}
    match how:
        case "endless answer":
            _write_without_end()
        case "one answer":
            _respond(request, result=pid)
            sys.exit()
        case "stays":
            _respond(request, result=pid)
            os.close(1)
        case _:
            _refuse(request)


def _write_without_end() -> None:
    for chunk in without_end(b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "'):
        sys.stdout.buffer.write(chunk)


def _refuse(request: dict[str, Any]) -> None:
    _respond(request, error={"code": -32601, "message": "no such method"})


def _respond(request: dict[str, Any], **fields: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **fields}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
