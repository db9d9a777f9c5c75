"""A Messages API on sockets of its own, whose first response breaks as real connections do."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from app.simulator import wire
from app.simulator.script import HttpError, Reply, Text

Break = Literal["end", "error", "close", "reset", "silence"]
"""The body ends in order; an error event, then the same; the connection is closed, reset, or stays open."""

BREAKS: tuple[Break, ...] = get_args(Break)
MODEL = "claude-haiku-5-5"
REST = Reply([Text("the rest")], message_id="msg_2", final_usage={"output_tokens": 30})

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def frames_of(reply: Reply) -> list[bytes]:
    """The events of a streamed response."""
    return [wire.sse(event) for event in wire.events(reply, model=MODEL)]


@dataclass
class BreakingProvider:
    """Answers the first call with `first` and what `ending` says, and all others with `REST`."""

    first: bytes = b""
    ending: Break = "end"
    calls: int = 0
    url: str = ""

    def breaks(self, first: Iterable[bytes], ending: Break) -> None:
        """What the next call is answered with."""
        self.first, self.ending, self.calls = b"".join(first), ending, 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        try:
            while not reader.at_eof():
                await self._answer(await reader.readuntil(b"\r\n\r\n"), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            # The gateway has closed it.
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = _LENGTH.search(head)
        body = await reader.readexactly(0 if length is None else int(length[1]))
        if not head.startswith(b"POST") or b"/count_tokens" in head:
            counted = wire.count_tokens(json.loads(body)) if body else 0
            return await _send_json(writer, {"input_tokens": counted, "data": []})
        self.calls += 1
        if self.calls == 1:
            return await self._break(reader, writer)
        if json.loads(body).get("stream"):
            return await _send(writer, b"".join(frames_of(REST)))
        return await _send_json(writer, wire.message(REST, model=MODEL))

    async def _break(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        error = wire.sse(wire.error(HttpError(500, "overloaded_error")))
        await _send(writer, self.first, ends=False)
        match self.ending:
            case "end":
                writer.write(_chunk(b""))
            case "error":
                writer.write(_chunk(error) + _chunk(b""))
            case "close":
                writer.close()
            case "reset":
                taken: socket.socket = writer.get_extra_info("socket")
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                writer.close()
            case "silence":
                await reader.read()


async def _send(writer: asyncio.StreamWriter, body: bytes, *, ends: bool = True) -> None:
    writer.write(_HEAD + (_chunk(body) if body else b"") + (_chunk(b"") if ends else b""))
    await writer.drain()


async def _send_json(writer: asyncio.StreamWriter, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    writer.write(body)
    await writer.drain()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def a_breaking_provider() -> AsyncIterator[BreakingProvider]:
    """Serve on a free port."""
    provider = BreakingProvider()
    server = await asyncio.start_server(provider.connected, "127.0.0.1", 0, limit=2**24)
    host, port = server.sockets[0].getsockname()
    provider.url = f"http://{host}:{port}"
    async with server:
        yield provider
