"""From a run's events to a response that streams them."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import Final, TypeAlias

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Message, Receive, Scope, Send

from app.auth.credential_monitor import CredentialRevoked
from app.http.encoder import Encoder
from app.streams.port import LogEntry

HEARTBEAT_S = 15.0

Within: TypeAlias = AbstractContextManager[None]
"""What a stream lasts within: the reader has a place, and the credential is valid."""

_PART: Final = 256
"""As many entries are encoded at once: what waits for a slow reader is not a whole run."""

_FAREWELL_S: Final = 0.2

_HEADERS = {
    # Proxies may neither keep nor compress nor collect what is meant to arrive at once.
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
}


class RevocableStream(EventSourceResponse):
    """A stream that ends when the credential it was opened with is revoked."""

    def __init__(
        self, chunks: AsyncIterator[bytes], encoder: Encoder, *, heartbeat_s: float, within: Within
    ) -> None:
        super().__init__(
            chunks,
            headers={**_HEADERS, **encoder.headers},
            ping=heartbeat_s,
            ping_message_factory=lambda: ServerSentEvent(comment="", sep="\n"),
            sep="\n",
        )
        self._within = within
        self._farewell = encoder.revoked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond; raises `CredentialRevoked` where nothing was sent yet."""
        sent: Message | None = None

        async def send_noted(message: Message) -> None:
            nonlocal sent
            sent = message
            await send(message)

        try:
            with self._within:
                await super().__call__(scope, receive, send_noted)
        except CredentialRevoked:
            if sent is None:
                raise
            if sent.get("more_body", True):
                # Who does not read is not waited for.
                with anyio.move_on_after(_FAREWELL_S):
                    await send({"type": "http.response.body", "body": self._farewell(), "more_body": False})


def event_stream(
    batches: AsyncGenerator[Sequence[LogEntry], None],
    encoder: Encoder,
    *,
    heartbeat_s: float = HEARTBEAT_S,
    within: Within,
) -> EventSourceResponse:
    """Stream what a run says. A client that leaves closes `batches`, and that is all."""
    return chunk_stream(_chunks(batches, encoder), encoder, heartbeat_s=heartbeat_s, within=within)


def chunk_stream(
    chunks: AsyncIterator[bytes], encoder: Encoder, *, heartbeat_s: float, within: Within
) -> EventSourceResponse:
    """Stream frames that are encoded already."""
    return RevocableStream(chunks, encoder, heartbeat_s=heartbeat_s, within=within)


async def _chunks(
    batches: AsyncGenerator[Sequence[LogEntry], None],
    encoder: Encoder,
) -> AsyncIterator[bytes]:
    yield encoder.opening
    async with aclosing(batches):
        async for batch in batches:
            # Much in one chunk: ten times the throughput of one chunk each.
            for part in in_parts(batch):
                yield encoder.encode(part)


def in_parts(batch: Sequence[LogEntry]) -> Iterator[Sequence[LogEntry]]:
    """What is ready, in parts that may be in memory as bytes for each reader."""
    for start in range(0, len(batch), _PART):
        yield batch[start : start + _PART]
