"""BodyBudget: limits the bytes of request bodies in memory, per account and in total."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from app.errors import TooMany, Unavailable
from app.http.admission.token_buckets import TokenBuckets

RETRY_AFTER_S: Final = 5


class TooManyBodies(TooMany):
    """This account is sending too many bytes at once; try again when its other requests have finished."""

    code = "too_many_bodies"


class BodiesFull(Unavailable):
    """The server is reading as many request bodies as it can; try again later."""

    code = "bodies_full"


class BodyBudget:
    """Limits the bytes of bodies held at once, counted as soon as announced, and the bytes per second."""

    def __init__(self, *, total: int, per_account: int, rate: TokenBuckets) -> None:
        """`rate` limits bytes per second for each account."""
        self._total = total
        self._per_account = per_account
        self._rate = rate
        self._held = 0
        self._by_account: Counter[Hashable] = Counter()

    @property
    def held(self) -> int:
        """Bytes reserved now."""
        return self._held

    @contextmanager
    def reservation(self, account: Hashable) -> Iterator["BodyReservation"]:
        """Open the reservation of one request; it is released at the end of the `with` block."""
        reservation = BodyReservation(self, account)
        try:
            yield reservation
        finally:
            self.release(account, reservation.size)

    def take(self, account: Hashable, size: int) -> None:
        """Reserve bytes; raises `TooManyBodies`, `BodiesFull`."""
        if self._by_account[account] + size > self._per_account:
            raise TooManyBodies(retry_after_s=RETRY_AFTER_S)
        if self._held + size > self._total:
            raise BodiesFull(retry_after_s=RETRY_AFTER_S)
        if (wait_s := self._rate.take(account, size)) > 0:
            raise TooManyBodies(retry_after_s=math.ceil(wait_s))
        self._by_account[account] += size
        self._held += size

    def release(self, account: Hashable, size: int) -> None:
        self._held -= size
        self._by_account[account] -= size
        if not self._by_account[account]:
            del self._by_account[account]


class BodyReservation:
    """Bytes reserved for one request."""

    def __init__(self, budget: BodyBudget, account: Hashable) -> None:
        self._budget = budget
        self._account = account
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Reserve at least `size` bytes in total; raises `TooManyBodies`, `BodiesFull`."""
        if size > self.size:
            self._budget.take(self._account, size - self.size)
            self.size = size
