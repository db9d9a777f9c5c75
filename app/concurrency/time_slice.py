"""TimeSlice: lets other tasks run while a task reads countless small pieces that have arrived already.

A stream never waits as long as it has pieces, and one network read of 64 KiB may hold ten thousand.
"""

import asyncio
import time
from typing import Final

SLICE_S: Final = 0.005
"""How long one task works before others run."""


class TimeSlice:
    """The time slice of one task; it begins when this is made."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def checkpoint(self) -> None:
        """To be called between two pieces: lets other tasks run if the slice is used up, and begins anew."""
        if time.perf_counter() - self._since > SLICE_S:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
