"""How many bytes of request bodies may be in memory at once, of one account and of all."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from app.errors import TooMany, Unavailable
from app.http.admission.token_buckets import TokenBuckets

RETRY_AFTER_S: Final = 5


class TooManyBodies(TooMany):
    """This account sends too much at once; try again when its other requests are done."""

    code = "too_many_bodies"


class BodiesFull(Unavailable):
    """The server is reading as much as it can; try again later."""

    code = "bodies_full"


class BodyBudget:
    """Limits the bytes of bodies: those held at once, from their announcement on, and those per second."""

    def __init__(self, *, total: int, per_account: int, rate: TokenBuckets) -> None:
        """`rate` is of bytes, by account."""
        self._total = total
        self._per_account = per_account
        self._rate = rate
        self._held = 0
        self._by_account: Counter[Hashable] = Counter()

    @property
    def held(self) -> int:
        """The bytes that are counted now."""
        return self._held

    @contextmanager
    def reservation(self, account: Hashable) -> Iterator["Reservation"]:
        """Count what one request holds while the body runs."""
        reservation = Reservation(self, account)
        try:
            yield reservation
        finally:
            self.give_back(account, reservation.size)

    def take(self, account: Hashable, size: int) -> None:
        """Count bytes in; raises `TooManyBodies`, `BodiesFull`."""
        if self._by_account[account] + size > self._per_account:
            raise TooManyBodies(retry_after_s=RETRY_AFTER_S)
        if self._held + size > self._total:
            raise BodiesFull(retry_after_s=RETRY_AFTER_S)
        if (wait_s := self._rate.take(account, size)) > 0:
            raise TooManyBodies(retry_after_s=math.ceil(wait_s))
        self._by_account[account] += size
        self._held += size

    def give_back(self, account: Hashable, size: int) -> None:
        """Count bytes out."""
        self._held -= size
        self._by_account[account] -= size
        if not self._by_account[account]:
            del self._by_account[account]


class Reservation:
    """What one request holds."""

    def __init__(self, budget: BodyBudget, account: Hashable) -> None:
        self._budget = budget
        self._account = account
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Hold at least so many bytes; raises `TooManyBodies`, `BodiesFull`."""
        if size > self.size:
            self._budget.take(self._account, size - self.size)
            self.size = size
