"""Following a log with an ear for its silence."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from app.streams.port import LogEntry


async def with_idle_timeout(
    batches: AsyncGenerator[Sequence[LogEntry], None], patience_s: Callable[[], float | None]
) -> AsyncGenerator[Sequence[LogEntry] | None, None]:
    """Yield the batches, and None each time nothing has come for so long; closes `batches` at its end.

    `patience_s` is asked anew before each wait; None waits for ever.
    """
    waiting: asyncio.Future[Sequence[LogEntry] | None] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(_next(batches))
            ready, _ = await asyncio.wait({waiting}, timeout=patience_s())
            if not ready:
                yield None
                continue
            batch, waiting = waiting.result(), None
            if batch is None:
                return
            yield batch
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await batches.aclose()


async def _next(batches: AsyncGenerator[Sequence[LogEntry], None]) -> Sequence[LogEntry] | None:
    return await anext(batches, None)
