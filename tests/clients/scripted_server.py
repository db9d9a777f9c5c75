"""An HTTP server on loopback that answers with bytes: broken, hostile, newer than the client."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Chunk = bytes | float
"""Bytes to send, or seconds without any."""


class Received(NamedTuple):
    """A request; the names of its headers are in small letters."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


@dataclass(slots=True)
class ScriptedServer:
    """Each connection gets the next answer, further ones the last; then it is closed."""

    answers: list[list[Chunk]]
    url: str = ""
    requests: list[Received] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *fields = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
            self.requests.append(Received(line, headers, body))
            for chunk in answer:
                if isinstance(chunk, bytes):
                    writer.write(chunk)
                    await writer.drain()
                else:
                    await asyncio.sleep(chunk)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers: Iterable[Chunk]) -> AsyncIterator[ScriptedServer]:
    """Serve these answers."""
    scripted = ScriptedServer([list(answer) for answer in answers])
    server = await asyncio.start_server(scripted.handle, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield scripted
    finally:
        server.close()


def response(
    body: bytes | str = b"", *, status: int = 200, kind: str = "text/html", **headers: str
) -> list[Chunk]:
    """A whole response; `retry_after` is the header `Retry-After`."""
    content = body if isinstance(body, bytes) else body.encode()
    lines = [f"HTTP/1.1 {status} Because", f"Content-Type: {kind}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ["\r\n".join([*lines, "Connection: close", "", ""]).encode() + content]


def json_response(document: Any, *, status: int = 200, **headers: str) -> list[Chunk]:
    """A response with this JSON."""
    return response(json.dumps(document), status=status, kind="application/json", **headers)


def problem(status: int, code: str, **headers: str) -> list[Chunk]:
    """A problem document."""
    document = {"title": "T", "status": status, "detail": f"It is {code}.", "code": code}
    return json_response(document, status=status, X_Request_ID="request-1", **headers)


def events(*frames: bytes | float) -> list[Chunk]:
    """An event stream, which ends when the connection does. Who lost it may come again at once."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nretry: 5\n\n"
    return [head, *frames]


def frame(position: int, kind: str, **fields: Any) -> bytes:
    """One event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\nid: {position}\n\n".encode()


def text(position: int, delta: str) -> bytes:
    """More text of the answer."""
    return frame(position, "text_delta", messageId="m", delta=delta)


def done(position: int) -> bytes:
    """The last event."""
    usage = {"promptTokens": 1, "completionTokens": 2}
    return frame(position, "done", usage=usage, finishReason="stop")
