"""TimeSlice: lets other tasks run while a task reads many small pieces that have already arrived.

Reading from a stream does not yield while it has data, and a network read of 64 KiB may hold 10,000 pieces.
"""

import asyncio
import time
from typing import Final

SLICE_S: Final = 0.005
"""How long a task works before it yields."""


class TimeSlice:
    """The time slice of one task, beginning now."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def checkpoint(self) -> None:
        """Call this between two pieces: yields if the slice is used up, and begins a new one."""
        if time.perf_counter() - self._since > SLICE_S:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
