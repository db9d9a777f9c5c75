"""TimeSlice: lets other tasks run while a task reads many small pieces that have already arrived.

Reading from a stream does not yield while it has data, and a network read of 64 KiB may hold 10,000 pieces.
"""

import asyncio
import time
from typing import Final

SLICE_S: Final = 0.005
"""How long a task works before it yields."""

SHOWN_S: Final = 0.001
"""As `SLICE_S`, of a task whose output a client is waiting for."""


class TimeSlice:
    """The time slice of one task, beginning now."""

    def __init__(self, lasts_s: float = SLICE_S) -> None:
        self._lasts_s = lasts_s
        self._since = time.perf_counter()

    async def checkpoint(self) -> None:
        """Call this between two pieces: yields if the slice is used up, and begins a new one."""
        if time.perf_counter() - self._since > self._lasts_s:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
