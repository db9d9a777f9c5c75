"""A program that is an MCP server as a test wants it; it imports little, because it is started often."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

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
        signal.pause()


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
