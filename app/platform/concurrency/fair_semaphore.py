"""FairSemaphore: a limited number of slots, granted to owners in rotation."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSemaphore:
    """Limits how many tasks hold a slot. With several slots, no owner gets all of them."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._share = max(1, slots - 1)
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def waiting(self, owner: str) -> int:
        return len(self._waiting.get(owner, ()))

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while the body runs."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(future)
        self._grant()
        try:
            await future
        except asyncio.CancelledError:
            self._forget(owner, future)
            raise
        try:
            yield
        finally:
            self._release(owner)

    def _grant(self) -> None:
        while self._free and (owner := self._next()) is not None:
            queue = self._waiting.pop(owner)
            future = queue.popleft()
            if queue:
                # Behind all other waiting owners.
                self._waiting[owner] = queue
            if future.cancelled():
                continue
            self._free -= 1
            self._held[owner] += 1
            future.set_result(None)

    def _next(self) -> str | None:
        return next((owner for owner in self._waiting if self._held[owner] < self._share), None)

    def _forget(self, owner: str, future: asyncio.Future[None]) -> None:
        if not future.cancelled():
            # The slot was granted at the moment the task was cancelled.
            self._release(owner)
            return
        queue = self._waiting.get(owner, deque())
        if future in queue:
            queue.remove(future)
        if not queue:
            self._waiting.pop(owner, None)

    def _release(self, owner: str) -> None:
        self._free += 1
        self._held -= Counter({owner: 1})
        self._grant()
