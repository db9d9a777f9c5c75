"""RunDispatcher: limits how many runs execute at once and picks the next one fairly."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.background import first_of
from app.errors import TooMany
from app.ids import AccountId, ApiKeyId

RETRY_AFTER_S = 5


class QueueFull(TooMany):
    """The run queue of this server is full; try again later."""

    code = "queue_full"


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many runs this process executes at once (slots), and how many more may be queued.

    `per_account` and `per_key` limit the slots that one account or key may hold. Unless `always`, they
    apply only while there are several accounts.
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
        """By default an account may hold three quarters of the slots, and never the last of several."""
        limit = per_account or max(1, concurrent * 3 // 4)
        always = not (per_account is None and per_key is None)
        return cls(
            concurrent,
            queued,
            min(limit, concurrent),
            min(per_key or limit, limit, concurrent),
            always=always,
        )

    @property
    def for_one_account(self) -> "Capacity":
        """The limits while there is only one account: every slot, unless an operator set a limit."""
        return self if self.always else replace(self, per_account=self.concurrent, per_key=self.concurrent)

    @property
    def queued_per_account(self) -> int:
        """How many runs of one account may be queued: half, so that others have room."""
        return (self.queued + 1) // 2

    @property
    def reserved(self) -> int:
        """How many slots are reserved for accounts that hold none."""
        return 1 if self.per_account < self.concurrent else 0


class SlotHolder(NamedTuple):
    """The account and key that a run's slot counts for."""

    account_id: AccountId
    api_key_id: ApiKeyId


@dataclass(slots=True)
class SlotClaim:
    """A slot that was taken before its run is stored, if one was free."""

    has_slot: bool
    is_used: bool = False
    """Whether the run holds it from now on."""


@dataclass(eq=False, slots=True)
class _Waiter:
    holder: SlotHolder
    slot: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the slot is assigned."""


class RunDispatcher:
    """Assigns slots to runs fairly.

    The next slot goes to the account with the fewest running runs, then to the one that got its last
    slot longest ago; within an account to the key with the fewest, then to the oldest run. A slot is
    only freed when its run ends, so some stay reserved: no account and no key exceeds its share, and
    the last slot goes to an account that holds none.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._shared = capacity
        self._capacity = capacity.for_one_account
        self._first: AccountId | None = None
        self._admitted: Counter[AccountId] = Counter()
        self._running: Counter[AccountId] = Counter()
        self._running_by_key: Counter[ApiKeyId] = Counter()
        self._waiting: list[_Waiter] = []
        self._last_slot: dict[AccountId, int] = {}
        self._slots_assigned = 0

    def share_slots(self) -> None:
        """There are several accounts now: slots that become free are shared between them."""
        self._capacity = self._shared

    @contextmanager
    def admission(self, account_id: AccountId) -> Iterator[ExitStack]:
        """Count a run; raises `QueueFull`. It stays counted after the block if the stack was emptied.

        `release` then ends the count.
        """
        self._detect_second_account(account_id)
        capacity, admitted = self._capacity, self._admitted
        limit = capacity.concurrent + capacity.queued
        limit_per_account = capacity.per_account + capacity.queued_per_account
        if admitted.total() >= limit or admitted[account_id] >= limit_per_account:
            raise QueueFull(retry_after_s=RETRY_AFTER_S, limit=limit)
        admitted[account_id] += 1
        with ExitStack() as stack:
            stack.callback(self.release, account_id)
            yield stack

    def admit(self, account_id: AccountId) -> None:
        """Count a run that was accepted earlier, whatever the limits."""
        self._detect_second_account(account_id)
        self._admitted[account_id] += 1

    def release(self, account_id: AccountId) -> None:
        """Stop counting a run that has ended."""
        self._admitted[account_id] -= 1
        self._admitted += Counter()
        if account_id not in self._admitted:
            self._last_slot.pop(account_id, None)

    @contextmanager
    def claim(self, holder: SlotHolder, *, wanted: bool = True) -> Iterator[SlotClaim]:
        """Take a slot if it is wanted and free; after the block it is free again, unless it is used."""
        # No run that waits could have it: slots are assigned as soon as they are free.
        claim = SlotClaim(has_slot=wanted and self._has_slot_for(holder))
        if claim.has_slot:
            self._take_slot(holder)
        try:
            yield claim
        finally:
            if claim.has_slot and not claim.is_used:
                self._free_slot(holder)

    @asynccontextmanager
    async def acquire(
        self,
        holder: SlotHolder,
        stop: asyncio.Event,
        *,
        on_wait: Callable[[int], Awaitable[None]],
        is_claimed: bool = False,
    ) -> AsyncIterator[None]:
        """Wait for a slot and hold it; if the run is stopped meanwhile, continue without a slot.

        `on_wait` is called once if the run has to wait, with the number of waiting runs, itself included.
        `is_claimed`: it has a slot by a claim that is used.
        """
        waiter = _Waiter(holder)
        if is_claimed:
            waiter.slot.set()
        else:
            self._waiting.append(waiter)
            self._assign_slots()
        try:
            if not waiter.slot.is_set():
                await on_wait(len(self._waiting))
                await first_of(waiter.slot.wait(), stop.wait())
            yield
        finally:
            if waiter.slot.is_set():
                self._free_slot(holder)
            else:
                self._waiting.remove(waiter)

    def _detect_second_account(self, account_id: AccountId) -> None:
        self._first = self._first or account_id
        if account_id != self._first:
            self.share_slots()

    def _assign_slots(self) -> None:
        while ready := [waiter for waiter in self._waiting if self._has_slot_for(waiter.holder)]:
            waiter = min(ready, key=self._priority)
            self._waiting.remove(waiter)
            self._take_slot(waiter.holder)
            waiter.slot.set()

    def _take_slot(self, holder: SlotHolder) -> None:
        self._count(holder, 1)
        self._slots_assigned += 1
        self._last_slot[holder.account_id] = self._slots_assigned

    def _free_slot(self, holder: SlotHolder) -> None:
        self._count(holder, -1)
        self._assign_slots()

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
        """The lowest comes first."""
        account_id, api_key_id = waiter.holder
        return self._running[account_id], self._last_slot.get(account_id, 0), self._running_by_key[api_key_id]
