"""A run of ours as the bytes of one run of AG-UI's: up to its end, or to where it waits for a person."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass

from app.http.encoders.ag_ui import AgUiEncoder
from app.ids import RunKey
from app.streams.port import LogEntry

SETTLES_S = 0.25
"""How long after a request for consent others may follow that belong to the same question."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What of a run of ours is told as one run of AG-UI's."""

    run: RunKey
    after: int = 0
    """The position its client has heard it to."""
    said: Sequence[LogEntry] = ()
    """What the run has said so far, from the first."""


async def ag_ui_chunks(
    batches: AsyncGenerator[Sequence[LogEntry], None], encoder: AgUiEncoder
) -> AsyncIterator[bytes]:
    """The frames; `batches` are a run's entries from the first."""
    yield encoder.opening
    waiting: asyncio.Future[Sequence[LogEntry] | None] | None = None
    try:
        while not encoder.ended:
            waiting = waiting or asyncio.ensure_future(_next(batches))
            ready, _ = await asyncio.wait({waiting}, timeout=SETTLES_S if encoder.asking else None)
            batch = waiting.result() if ready else None
            if batch is None:
                break
            waiting = None
            if chunk := encoder.encode(batch):
                yield chunk
        if encoder.asking:
            yield encoder.interrupt()
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await batches.aclose()


async def _next(batches: AsyncGenerator[Sequence[LogEntry]]) -> Sequence[LogEntry] | None:
    return await anext(batches, None)
