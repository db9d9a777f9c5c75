"""A run of ours as the bytes of one run of AG-UI's: up to its end, or to where it waits for a person."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from app.http.ag_ui.encoder import AgUiEncoder
from app.http.streaming.sse import split_batch
from app.ids import RunKey
from app.streams.idle_timeout import with_idle_timeout
from app.streams.port import LogEntry

SETTLES_S = 0.25
"""After so much silence a run that waits for a person says no more until that person decides."""
IN_STEP_S = 3.0
"""The same while the model may still be writing the next call: a step's calls are decided about together."""


@dataclass(frozen=True, slots=True)
class RunSegment:
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
    heard = with_idle_timeout(batches, lambda: _patience_s(encoder))
    async with aclosing(heard):
        yield encoder.preamble
        async for batch in heard:
            if batch is None:
                break
            for part in split_batch(batch):
                if chunk := encoder.encode(part):
                    yield chunk
            if encoder.ended:
                break
    if encoder.asking:
        yield encoder.interrupt()


def _patience_s(encoder: AgUiEncoder) -> float | None:
    if not encoder.asking:
        return None
    return IN_STEP_S if encoder.in_step else SETTLES_S
