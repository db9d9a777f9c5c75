"""with_idle_timeout: reports when a followed event log has been idle for some time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from app.streams.port import LogEntry


async def with_idle_timeout(
    batches: AsyncGenerator[Sequence[LogEntry], None], timeout_s: Callable[[], float | None]
) -> AsyncGenerator[Sequence[LogEntry] | None, None]:
    """Yield the batches, and None each time none arrived within the timeout; closes `batches` at the end.

    `timeout_s` is called before each wait; None waits for ever.
    """
    waiting: asyncio.Future[Sequence[LogEntry] | None] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(_next(batches))
            ready, _ = await asyncio.wait({waiting}, timeout=timeout_s())
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
