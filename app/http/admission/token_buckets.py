"""TokenBuckets: rate limits by key, for a bounded number of keys."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

MAX_BUCKETS = 10_000
"""The least recently used buckets beyond this are dropped and start full again."""


class TokenBuckets:
    """One bucket per key: full at first, refilled at a constant rate."""

    def __init__(self, *, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._tokens: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, count: float = 1) -> float:
        """Take tokens; returns 0, or the seconds until there are enough, with nothing taken.

        A count above the bucket's size takes a full bucket.
        """
        left, requested = self._available(key), min(count, self._burst)
        if left >= requested:
            self._store(key, left - requested)
            return 0.0
        self._store(key, left)
        return (requested - left) / self._per_s

    def wait_s(self, key: Hashable) -> float:
        """Seconds until there is a token, without taking it."""
        return max(0.0, (1 - self._available(key)) / self._per_s)

    def _available(self, key: Hashable) -> float:
        tokens, since = self._tokens.get(key, (self._burst, 0.0))
        return min(self._burst, tokens + max(0.0, self._clock() - since) * self._per_s)

    def _store(self, key: Hashable, tokens: float) -> None:
        self._tokens[key] = tokens, self._clock()
        self._tokens.move_to_end(key)
        while len(self._tokens) > MAX_BUCKETS:
            self._tokens.popitem(last=False)
