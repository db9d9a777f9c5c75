import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import nullcontext

import pytest

from app.errors import Unavailable
from app.events import TextDelta
from app.http.middleware import Message
from app.http.native.encoder import NativeEncoder
from app.http.streaming.encoder import RETRY_LINE
from app.http.streaming.sse import HEARTBEAT_S, InterruptibleStream, encoded
from app.streams.port import LogEntry
from tests.patience import PATIENCE_S

HEARTBEAT = b":\n"


class Reader:
    """The server's side of a connection: records what was sent, and simulates a disconnect."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Message] = asyncio.Queue()
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def chunk(self) -> bytes:
        """The next chunk of the body."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await self.sent.get()
                if message["type"] == "http.response.body":
                    body: bytes = message["body"]
                    return body


class Run:
    """Batches of a run's events."""

    def __init__(self, *batches: Sequence[LogEntry]) -> None:
        self.batches: asyncio.Queue[Sequence[LogEntry] | Exception | None] = asyncio.Queue()
        for batch in batches:
            self.batches.put_nowait(batch)
        self.closed = asyncio.Event()

    async def follow(self) -> AsyncGenerator[Sequence[LogEntry], None]:
        try:
            while (batch := await self.batches.get()) is not None:
                if isinstance(batch, Exception):
                    raise batch
                yield batch
        finally:
            self.closed.set()


def response_of(run: Run, heartbeat_s: float) -> InterruptibleStream:
    encoder = NativeEncoder()
    chunks = encoded(run.follow(), encoder)
    return InterruptibleStream(chunks, encoder, heartbeat_s=heartbeat_s, reader_scope=nullcontext())


def stream(run: Run, reader: Reader, heartbeat_s: float = 60.0) -> asyncio.Task[None]:
    response = response_of(run, heartbeat_s)
    scope = {"type": "http", "method": "GET"}
    return asyncio.create_task(response(scope, reader.receive, reader.sent.put))


def entry(position: int) -> LogEntry:
    return LogEntry(position, TextDelta(message_id="m", delta=f"{position} \u2028"))


async def test_ready_entries_are_sent_as_one_chunk() -> None:
    first, rest = [entry(1)], [entry(2), entry(3)]
    run, reader = Run(first, rest), Reader()
    run.batches.put_nowait(None)

    await stream(run, reader)

    chunks = [await reader.chunk() for _ in range(4)]
    encode = NativeEncoder().encode
    assert chunks == [RETRY_LINE, encode(first), encode(rest), b""]


async def test_pauses_are_filled_with_heartbeats() -> None:
    run, reader = Run(), Reader()
    task = stream(run, reader, heartbeat_s=0.01)

    chunks = [await reader.chunk() for _ in range(3)]
    run.batches.put_nowait(None)
    await task

    assert chunks == [RETRY_LINE, HEARTBEAT, HEARTBEAT]


async def test_a_disconnect_closes_the_batches() -> None:
    run, reader = Run([entry(1)]), Reader()
    task = stream(run, reader)
    await reader.chunk()
    await reader.chunk()

    reader.left.set()

    async with asyncio.timeout(PATIENCE_S):
        await task
        await run.closed.wait()


async def test_a_disconnect_during_a_chunk_closes_the_batches() -> None:
    run, reader = Run([entry(1)]), Reader()
    sending = asyncio.Event()

    async def send(message: Message) -> None:
        if message.get("body", b"").startswith(b"id: "):
            sending.set()
            await asyncio.Event().wait()

    response = response_of(run, HEARTBEAT_S)
    task = asyncio.create_task(response({"type": "http", "method": "GET"}, reader.receive, send))
    await sending.wait()
    reader.left.set()

    async with asyncio.timeout(PATIENCE_S):
        await task
    assert run.closed.is_set()


async def test_a_failure_is_not_a_regular_end() -> None:
    run, reader = Run([entry(1)]), Reader()
    run.batches.put_nowait(Unavailable())

    with pytest.raises(Unavailable):
        await stream(run, reader)

    assert run.closed.is_set()
    messages = [reader.sent.get_nowait() for _ in range(reader.sent.qsize())]
    assert all(message.get("more_body", True) for message in messages)
