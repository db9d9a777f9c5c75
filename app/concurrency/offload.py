"""Offload: runs work on large values in a thread, so that the event loop is free meanwhile."""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

SMALL_BYTES: Final = 32 * 1024
"""Up to here work is done on the event loop: a thread would take longer."""

Result = TypeVar("Result")


class Offload:
    """One thread at a time: two would need more memory and pass the interpreter lock to each other."""

    def __init__(self) -> None:
        self._one = CapacityLimiter(1)

    async def run(self, work: Callable[[], Result], *, size: int) -> Result:
        """What `work` returns; `size` is about how many bytes it works on."""
        if size <= SMALL_BYTES:
            return work()
        return await anyio.to_thread.run_sync(work, limiter=self._one)
