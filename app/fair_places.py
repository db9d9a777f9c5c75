"""FairPlaces: a few places, handed out in turn: who asks much waits behind who asks little."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairPlaces:
    """How many may do something at once; no owner has all places where there are two."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._share = max(1, places - 1)
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def waiting(self, owner: str) -> int:
        """How many of an owner's wait for a place."""
        return len(self._waiting.get(owner, ()))

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it while the body runs."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(future)
        self._hand_out()
        try:
            await future
        except asyncio.CancelledError:
            self._forget(owner, future)
            raise
        try:
            yield
        finally:
            self._give_back(owner)

    def _hand_out(self) -> None:
        while self._free and (owner := self._next()) is not None:
            queue = self._waiting.pop(owner)
            future = queue.popleft()
            if queue:
                # Behind everybody else who waits.
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
            # It was given a place in the moment it was cancelled.
            self._give_back(owner)
            return
        queue = self._waiting.get(owner, deque())
        if future in queue:
            queue.remove(future)
        if not queue:
            self._waiting.pop(owner, None)

    def _give_back(self, owner: str) -> None:
        self._free += 1
        self._held -= Counter({owner: 1})
        self._hand_out()
