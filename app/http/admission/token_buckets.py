"""TokenBuckets: rate limits by key, for a bounded number of keys."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

MAX_BUCKETS = 10_000
"""The least recently used buckets beyond this are dropped and start full again."""


class RefillRate(NamedTuple):
    """How fast a bucket is refilled, and its size."""

    per_s: float
    burst: float


class TokenBuckets:
    """One bucket per key: full at first, refilled at a constant rate."""

    def __init__(self, *, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = RefillRate(per_s, burst)
        self._clock = clock
        self._tokens: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, count: float = 1, *, rate: RefillRate | None = None) -> float:
        """Take tokens; returns 0, or the seconds until there are enough, with nothing taken.

        A count above the bucket's size takes a full bucket. `rate` is that of this bucket, if it has its own.
        """
        rate = rate or self._rate
        left, requested = self._available(key, rate), min(count, rate.burst)
        if left >= requested:
            self._store(key, left - requested)
            return 0.0
        self._store(key, left)
        return (requested - left) / rate.per_s

    def wait_s(self, key: Hashable) -> float:
        """Seconds until there is a token, without taking it."""
        return max(0.0, (1 - self._available(key, self._rate)) / self._rate.per_s)

    def _available(self, key: Hashable, rate: RefillRate) -> float:
        tokens, since = self._tokens.get(key, (rate.burst, 0.0))
        return min(rate.burst, tokens + max(0.0, self._clock() - since) * rate.per_s)

    def _store(self, key: Hashable, tokens: float) -> None:
        self._tokens[key] = tokens, self._clock()
        self._tokens.move_to_end(key)
        while len(self._tokens) > MAX_BUCKETS:
            self._tokens.popitem(last=False)
