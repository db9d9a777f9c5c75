"""Token buckets: how often somebody may do something, for a bounded number of somebodies."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

MAX_KNOWN = 10_000
"""Of how many is remembered what they have used; those heard of longest ago may begin anew."""


class TokenBuckets:
    """A bucket for each: full at first, refilled steadily."""

    def __init__(self, *, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._tokens: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, who: Hashable, count: float = 1) -> float:
        """Take tokens; returns the seconds until there are as many, 0 where there were.

        More than a bucket holds are taken from a full one.
        """
        left, wanted = self._left(who), min(count, self._burst)
        if left >= wanted:
            self._keep(who, left - wanted)
            return 0.0
        self._keep(who, left)
        return (wanted - left) / self._per_s

    def wait_s(self, who: Hashable) -> float:
        """The seconds until there is a token, without taking it."""
        return max(0.0, (1 - self._left(who)) / self._per_s)

    def _left(self, who: Hashable) -> float:
        tokens, since = self._tokens.get(who, (self._burst, 0.0))
        return min(self._burst, tokens + max(0.0, self._clock() - since) * self._per_s)

    def _keep(self, who: Hashable, tokens: float) -> None:
        self._tokens[who] = tokens, self._clock()
        self._tokens.move_to_end(who)
        while len(self._tokens) > MAX_KNOWN:
            self._tokens.popitem(last=False)
