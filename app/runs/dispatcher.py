"""RunQueue: how many runs go on at once, who waits, and who comes next."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from app.errors import TooMany
from app.ids import AccountId, ApiKeyId

RETRY_AFTER_S = 5


class QueueFull(TooMany):
    """As many runs are waiting as this server takes; try again later."""

    code = "queue_full"


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many runs this process carries at once, and how many more may wait.

    `per_account` and `per_key` are the most places one of them may hold. Unless `always`, that is so
    only while there are several accounts.
    """

    concurrent: int
    queued: int
    per_account: int
    per_key: int
    always: bool = True

    @classmethod
    def of(
        cls, concurrent: int, queued: int, *, per_account: int | None = None, per_key: int | None = None
    ) -> "Capacity":
        """By default an account may hold three quarters of the places, and never the last of several."""
        most = per_account or max(1, concurrent * 3 // 4)
        always = not (per_account is None and per_key is None)
        return cls(
            concurrent, queued, min(most, concurrent), min(per_key or most, most, concurrent), always=always
        )

    @property
    def unshared(self) -> "Capacity":
        """What there is while one account is the only one: every place, unless an operator has said less."""
        return self if self.always else replace(self, per_account=self.concurrent, per_key=self.concurrent)

    @property
    def queued_per_account(self) -> int:
        """How many of one account may wait: half, so that there is room for others."""
        return (self.queued + 1) // 2

    @property
    def reserved(self) -> int:
        """How many places are kept for accounts that hold none."""
        return 1 if self.per_account < self.concurrent else 0


class SlotHolder(NamedTuple):
    """Who asks for a place."""

    account_id: AccountId
    api_key_id: ApiKeyId


@dataclass(eq=False, slots=True)
class _Waiter:
    holder: SlotHolder
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RunDispatcher:
    """Gives out places fairly.

    Next is the account with the fewest runs under way, then the one whose last turn is longest
    ago; of an account the key with the fewest, then the oldest run. A place is given back only when
    its run ends, so some are kept free: no account and no key holds more than its share, and the
    last place goes to an account that holds none.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._shared = capacity
        self._capacity = capacity.unshared
        self._first: AccountId | None = None
        self._admitted: Counter[AccountId] = Counter()
        self._running: Counter[AccountId] = Counter()
        self._running_by_key: Counter[ApiKeyId] = Counter()
        self._waiting: list[_Waiter] = []
        self._last_turn: dict[AccountId, int] = {}
        self._turns = 0

    def share(self) -> None:
        """From now on there are several accounts: places that become free are shared between them."""
        self._capacity = self._shared

    @contextmanager
    def admission(self, account_id: AccountId) -> Iterator[ExitStack]:
        """Count a run in; raises `QueueFull`. Left with the stack emptied, it stays counted.

        Then `release` counts it out.
        """
        self._note(account_id)
        capacity, admitted = self._capacity, self._admitted
        most = capacity.concurrent + capacity.queued
        share = capacity.per_account + capacity.queued_per_account
        if admitted.total() >= most or admitted[account_id] >= share:
            raise QueueFull(retry_after_s=RETRY_AFTER_S, limit=most)
        admitted[account_id] += 1
        with ExitStack() as stack:
            stack.callback(self.release, account_id)
            yield stack

    def admit(self, account_id: AccountId) -> None:
        """Count in a run that was accepted before, however many there are."""
        self._note(account_id)
        self._admitted[account_id] += 1

    def release(self, account_id: AccountId) -> None:
        """Count a run out."""
        self._admitted[account_id] -= 1
        self._admitted += Counter()
        if account_id not in self._admitted:
            self._last_turn.pop(account_id, None)

    @asynccontextmanager
    async def acquire(
        self,
        holder: SlotHolder,
        stop: asyncio.Event,
        *,
        on_wait: Callable[[int], Awaitable[None]],
    ) -> AsyncIterator[None]:
        """Wait for a place and hold it; a run that is stopped meanwhile needs none to end.

        `on_wait` is told how many are before it, itself included, when it has to wait.
        """
        waiter = _Waiter(holder)
        self._waiting.append(waiter)
        self._assign_slots()
        try:
            if not waiter.turn.done():
                await on_wait(len(self._waiting))
                await _either(waiter.turn, stop)
            yield
        finally:
            if waiter.turn.done():
                self._count(holder, -1)
                self._assign_slots()
            else:
                self._waiting.remove(waiter)

    def _note(self, account_id: AccountId) -> None:
        self._first = self._first or account_id
        if account_id != self._first:
            self.share()

    def _assign_slots(self) -> None:
        while ready := [waiter for waiter in self._waiting if self._has_slot_for(waiter.holder)]:
            waiter = min(ready, key=self._priority)
            self._waiting.remove(waiter)
            self._count(waiter.holder, 1)
            self._turns += 1
            self._last_turn[waiter.holder.account_id] = self._turns
            waiter.turn.set_result(None)

    def _has_slot_for(self, holder: SlotHolder) -> bool:
        capacity, held = self._capacity, self._running[holder.account_id]
        free = capacity.concurrent - self._running.total()
        if held >= capacity.per_account or self._running_by_key[holder.api_key_id] >= capacity.per_key:
            return False
        return free > (capacity.reserved if held else 0)

    def _count(self, holder: SlotHolder, change: int) -> None:
        self._running[holder.account_id] += change
        self._running_by_key[holder.api_key_id] += change
        self._running += Counter()
        self._running_by_key += Counter()

    def _priority(self, waiter: _Waiter) -> tuple[int, int, int]:
        account_id, api_key_id = waiter.holder
        return self._running[account_id], self._last_turn.get(account_id, 0), self._running_by_key[api_key_id]


async def _either(turn: asyncio.Future[None], stop: asyncio.Event) -> None:
    stopped = asyncio.ensure_future(stop.wait())
    either: set[asyncio.Future[Any]] = {turn, stopped}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
