"""StartSlots: how many CLIs start at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONGEST_S = 5.0
"""A CLI that takes longer, because it hangs or resumes a long conversation, delays no other."""


class StartSlots:
    """Limits how many CLIs start at the same time: all of them together would start later."""

    def __init__(self, limit: int, *, longest_s: float = LONGEST_S) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._longest_s = longest_s
        self.wanted = 0
        """How many CLIs are starting or wait for it."""

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Held while a CLI starts, but not for long; those that wait get it in order."""
        self.wanted += 1
        try:
            await self._slots.acquire()
            held = [self._slots]
            late = asyncio.get_running_loop().call_later(self._longest_s, _release, held)
            try:
                yield
            finally:
                late.cancel()
                _release(held)
        finally:
            self.wanted -= 1


def _release(held: list[asyncio.Semaphore]) -> None:
    if held:
        held.pop().release()
