"""Server-sent events: `Last-Event-ID`, and streams that end with their credential or the server."""

from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import Annotated, Final, TypeAlias

import anyio
from fastapi import Depends, Header
from sse_starlette import EventSourceResponse
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
_CLOSE_S: Final = 30.0
"""How long a stream that is cut short may take to leave its run."""

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


_HEARTBEAT: Final = b":\n"
"""A comment without an empty line: it ends no block, so no client makes an event of it."""


class InterruptibleStream(EventSourceResponse):
    """A stream that ends early, in order, when its credential is revoked or the server stops."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        encoder: Encoder,
        *,
        heartbeat_s: float,
        reader_scope: ReaderScope,
    ) -> None:
        super().__init__(chunks, headers={**_HEADERS, **encoder.headers})
        self._chunks, self._heartbeat_s = chunks, heartbeat_s
        self._reader_scope = reader_scope
        self._encoder = encoder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
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
                await self._respond(receive, send_recorded)
        except CredentialRevoked:
            if sent is None:
                raise
            await _end(sent, self._encoder.encode_revoked(), send)
        except ServerStopping:
            if sent is None:
                raise
            await _end(sent, self._encoder.encode_stopping(), send)

    async def _respond(self, receive: Receive, send: Send) -> None:
        """Send the chunks, until they end or the client disconnects."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        is_complete, failure = False, None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, receive, send, tasks.cancel_scope)
            try:
                await self._send_chunks(send)
                is_complete = True
            except Exception as error:  # noqa: BLE001 - raised below, because the group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if is_complete:
            await send(_body(b"", more_body=False))

    async def _send_chunks(self, send: Send) -> None:
        try:
            async for chunk in self._chunks:
                await send(_body(chunk))
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._chunks.aclose()

    async def _watch(self, receive: Receive, send: Send, scope: anyio.CancelScope) -> None:
        """Send heartbeats until the client disconnects, which cancels the scope."""
        while True:
            with anyio.move_on_after(self._heartbeat_s):
                while (await receive())["type"] != "http.disconnect":
                    pass
                scope.cancel()
                return
            await send(_body(_HEARTBEAT))


def _body(chunk: bytes, *, more_body: bool = True) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": more_body}


async def _end(last: Message, chunk: bytes, send: Send) -> None:
    """Send the last chunk, unless the response is complete."""
    if last.get("more_body", True):
        # A client that does not read must not block this.
        with anyio.move_on_after(_FINAL_SEND_S):
            await send(_body(chunk, more_body=False))


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
