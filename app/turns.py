"""Turns: reading countless small pieces that are there already, while others get on with their work.

A stream waits for nobody as long as it has pieces, and a network read of 64 KiB may hold ten thousand.
"""

import asyncio
import time
from typing import Final

TURN_S: Final = 0.005
"""How long somebody reads before others have their turn."""


class Turns:
    """Those of one reader."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def take(self) -> None:
        """Between two pieces: let others go on, where it is time."""
        if time.perf_counter() - self._since > TURN_S:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
