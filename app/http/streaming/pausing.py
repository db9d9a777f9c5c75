"""Streaming a run up to its end, or to where it waits for a person's decision."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Protocol

from app.http.streaming.encoder import Encoder
from app.http.streaming.sse import split_batch
from app.streams.idle_timeout import with_idle_timeout
from app.streams.port import LogEntry


class PausingEncoder(Encoder, Protocol):
    """An encoder of a wire whose clients send decisions in a new request."""

    @property
    def ended(self) -> bool:
        """Whether the response is complete."""
        ...

    @property
    def pause_after_s(self) -> float | None:
        """Seconds without new events after which the response pauses; None if no person has to decide."""
        ...

    def encode_pause(self) -> bytes:
        """The last frames of a response to a run that waits for a person."""
        ...


async def chunks_until_pause(
    batches: AsyncGenerator[Sequence[LogEntry], None], encoder: PausingEncoder
) -> AsyncIterator[bytes]:
    """The encoded frames of a run; `batches` must start with its first entry."""
    batches_or_idle = with_idle_timeout(batches, lambda: encoder.pause_after_s)
    yield encoder.preamble
    async with aclosing(batches_or_idle):
        async for batch in batches_or_idle:
            if batch is None:
                break
            for part in split_batch(batch):
                if chunk := encoder.encode(part):
                    yield chunk
            if encoder.ended:
                return
    if encoder.pause_after_s is not None:
        yield encoder.encode_pause()
