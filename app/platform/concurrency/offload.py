"""Offload: runs work on large values in a thread, so that the event loop stays free."""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

SMALL_BYTES: Final = 32 * 1024
"""Up to this size work is done on the event loop: starting a thread would take longer."""

Result = TypeVar("Result")


class Offload:
    """Runs one thread at a time: two would need more memory and compete for the interpreter lock."""

    def __init__(self) -> None:
        self._one = CapacityLimiter(1)

    async def run(self, work: Callable[[], Result], *, size: int) -> Result:
        """Return the result of `work`; `size` is about how many bytes it processes."""
        if size <= SMALL_BYTES:
            return work()
        return await anyio.to_thread.run_sync(work, limiter=self._one)
