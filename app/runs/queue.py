"""RunQueue: how many runs go on at once, who waits, and who comes next."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from app.errors import TooMany
from app.ids import AccountId

RETRY_AFTER_S = 5


class QueueFull(TooMany):
    """As many runs are waiting as this server takes; try again later."""

    code = "queue_full"


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many runs this process carries at once, and how many more may wait."""

    concurrent: int
    queued: int

    @property
    def queued_per_account(self) -> int:
        """How many of one account may wait: half, so that there is room for others."""
        return max(1, (self.queued + 1) // 2)


@dataclass(eq=False, slots=True)
class _Waiter:
    account_id: AccountId
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RunQueue:
    """Gives out places fairly.

    Next is the account with the fewest runs under way, then the one whose last turn is longest
    ago; of an account the oldest run.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._admitted: Counter[AccountId] = Counter()
        self._running: Counter[AccountId] = Counter()
        self._waiting: list[_Waiter] = []
        self._last_turn: dict[AccountId, int] = {}
        self._turns = 0

    @contextmanager
    def admission(self, account_id: AccountId) -> Iterator[ExitStack]:
        """Count a run in; raises `QueueFull`. Left with the stack emptied, it stays counted.

        Then `discharge` counts it out.
        """
        capacity, admitted = self._capacity, self._admitted
        if admitted.total() >= capacity.concurrent:
            waiting = admitted[account_id] - self._running[account_id]
            full = admitted.total() >= capacity.concurrent + capacity.queued
            if full or waiting >= capacity.queued_per_account:
                raise QueueFull(retry_after_s=RETRY_AFTER_S, limit=capacity.concurrent + capacity.queued)
        admitted[account_id] += 1
        with ExitStack() as stack:
            stack.callback(self.discharge, account_id)
            yield stack

    def readmit(self, account_id: AccountId) -> None:
        """Count in a run that was accepted before, however many there are."""
        self._admitted[account_id] += 1

    def discharge(self, account_id: AccountId) -> None:
        """Count a run out."""
        self._admitted[account_id] -= 1
        self._admitted += Counter()
        if account_id not in self._admitted:
            self._last_turn.pop(account_id, None)

    @asynccontextmanager
    async def place(
        self,
        account_id: AccountId,
        stop: asyncio.Event,
        *,
        waits: Callable[[int], Awaitable[None]],
    ) -> AsyncIterator[None]:
        """Wait for a place and hold it; a run that is stopped meanwhile needs none to end.

        `waits` is told how many are before it, itself included, when it has to wait.
        """
        waiter = _Waiter(account_id)
        self._waiting.append(waiter)
        self._give_out()
        try:
            if not waiter.turn.done():
                await waits(len(self._waiting))
                await _either(waiter.turn, stop)
            yield
        finally:
            if waiter.turn.done():
                self._running[account_id] -= 1
                self._running += Counter()
                self._give_out()
            else:
                self._waiting.remove(waiter)

    def _give_out(self) -> None:
        while self._waiting and self._running.total() < self._capacity.concurrent:
            waiter = min(self._waiting, key=self._precedence)
            self._waiting.remove(waiter)
            self._running[waiter.account_id] += 1
            self._turns += 1
            self._last_turn[waiter.account_id] = self._turns
            waiter.turn.set_result(None)

    def _precedence(self, waiter: _Waiter) -> tuple[int, int]:
        return self._running[waiter.account_id], self._last_turn.get(waiter.account_id, 0)


async def _either(turn: asyncio.Future[None], stop: asyncio.Event) -> None:
    stopped = asyncio.ensure_future(stop.wait())
    either: set[asyncio.Future[Any]] = {turn, stopped}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
