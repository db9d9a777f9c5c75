"""Streaming a run up to its end, or to where it waits for a person's decision."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import ClassVar, Protocol

from app.http.streaming.encoder import Encoder
from app.http.streaming.sse import split_batch
from app.streams.idle_timeout import with_idle_timeout
from app.streams.port import LogEntry


class PausingEncoder(Encoder, Protocol):
    """An encoder of a wire whose clients send decisions in a new request."""

    pause_at_latest_s: ClassVar[float | None]
    """Seconds of waiting for events after which the response pauses even if some arrived; None: no limit."""

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
    batches: AsyncGenerator[Sequence[LogEntry], None],
    encoder: PausingEncoder,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[bytes, None]:
    """The encoded frames of a run; `batches` must start with its first entry."""
    # Without the time a slow reader takes: it may be reading stored events, with the decision among them.
    waited_s = 0.0
    batches_or_idle = with_idle_timeout(batches, lambda: encoder.pause_after_s)
    yield encoder.preamble
    async with aclosing(batches_or_idle):
        while True:
            began = clock()
            batch = await anext(batches_or_idle, None)
            if batch is None:
                break
            waited_s = 0.0 if encoder.pause_after_s is None else waited_s + clock() - began
            for part in split_batch(batch):
                if chunk := encoder.encode(part):
                    yield chunk
            if encoder.ended:
                return
            if _is_late(encoder, waited_s):
                break
    if encoder.pause_after_s is not None:
        yield encoder.encode_pause()


def _is_late(encoder: PausingEncoder, waited_s: float) -> bool:
    limit = encoder.pause_at_latest_s
    return limit is not None and encoder.pause_after_s is not None and waited_s >= limit
