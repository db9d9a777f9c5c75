"""Server-sent events: `Last-Event-ID`, and streams that end with their credential or the server."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import Annotated, Final, TypeAlias

import anyio
from fastapi import Depends, Header
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Message, Receive, Scope, Send

from app.auth.credential_monitor import CredentialRevoked
from app.errors import Invalid
from app.http.streaming.closing import OpenStream
from app.http.streaming.encoder import Encoder
from app.http.streaming.stopping import ServerStopping
from app.requests.principal import Principal
from app.streams.port import LogEntry

HEARTBEAT_S = 15.0

ReaderScope: TypeAlias = AbstractContextManager[OpenStream | None]
"""Held while a response is sent: counts the reader, and is cancelled when its credential is revoked, or, for
an `OpenStream`, when the server stops."""

OpenReader: TypeAlias = Callable[[Principal, Hashable], ReaderScope]
"""Opens reader scopes for the callers of what they read."""

_MAX_ENTRIES_PER_CHUNK: Final = 256
"""Bounds the bytes that are encoded ahead for a slow reader."""

_FINAL_SEND_S: Final = 0.2

_HEADERS = {
    # Proxies must not cache, compress or buffer the stream.
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
}


async def last_event_id(
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="Resume after this event; takes precedence over `after`.",
            json_schema_extra={"pattern": "^[0-9]{0,9}$"},
        ),
    ] = None,
) -> int | None:
    """The last position a reconnecting client has received; raises `Invalid` for other values."""
    if last_event_id is None or last_event_id == "":
        return None
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10):  # noqa: PLR2004
        raise Invalid.field("Last-Event-ID", "must be the number of an event")
    return int(last_event_id)


LastEventId: TypeAlias = Annotated[int | None, Depends(last_event_id)]


class _Heartbeat(ServerSentEvent):
    """A comment without an empty line: it ends no block, so no client makes an event of it."""

    def encode(self) -> bytes:
        """The line."""
        return b":\n"


class InterruptibleStream(EventSourceResponse):
    """A stream that ends early, in order, when its credential is revoked or the server stops."""

    def __init__(
        self, chunks: AsyncIterator[bytes], encoder: Encoder, *, heartbeat_s: float, reader_scope: ReaderScope
    ) -> None:
        super().__init__(
            chunks,
            headers={**_HEADERS, **encoder.headers},
            ping=heartbeat_s,
            ping_message_factory=_Heartbeat,
            sep="\n",
        )
        self._reader_scope = reader_scope
        self._encoder = encoder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond; raises `CredentialRevoked` or `ServerStopping` if nothing has been sent yet."""
        sent: Message | None = None
        stream: OpenStream | None = None

        async def send_recorded(message: Message) -> None:
            nonlocal sent
            sent = message
            if stream is not None:
                stream.sent()
            await send(message)

        try:
            with self._reader_scope as stream:
                await super().__call__(scope, receive, send_recorded)
        except CredentialRevoked:
            if sent is None:
                raise
            await _end(sent, self._encoder.encode_revoked(), send)
        except ServerStopping:
            if sent is None:
                raise
            await _end(sent, self._encoder.encode_stopping(), send)


async def _end(last: Message, chunk: bytes, send: Send) -> None:
    """Send the last chunk, unless the response is complete."""
    if last.get("more_body", True):
        # A client that does not read must not block this.
        with anyio.move_on_after(_FINAL_SEND_S):
            await send({"type": "http.response.body", "body": chunk, "more_body": False})


async def encoded(
    batches: AsyncGenerator[Sequence[LogEntry], None], encoder: Encoder
) -> AsyncGenerator[bytes, None]:
    """The frames of a run's events; closing them closes `batches`."""
    yield encoder.preamble
    async with aclosing(batches):
        async for batch in batches:
            # Many entries per chunk: ten times the throughput of one chunk per entry.
            for part in split_batch(batch):
                yield encoder.encode(part)


def split_batch(batch: Sequence[LogEntry]) -> Iterator[Sequence[LogEntry]]:
    """Split a batch into parts of bounded size."""
    for start in range(0, len(batch), _MAX_ENTRIES_PER_CHUNK):
        yield batch[start : start + _MAX_ENTRIES_PER_CHUNK]
