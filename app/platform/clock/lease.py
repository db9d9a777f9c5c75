"""Lease: whether this process may still act for its runs, or another one may have taken them over."""

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from app.ids import RunKey
from app.platform.clock.boot_time import boot_time

DEFAULT_LEASE_S = 15.0


@dataclass(slots=True)
class Lease:
    """Held for `lasts_s` from each renewal. While it is not held no event, tool call or model call begins.

    Times are those of `boot_time`: those in which the process or its machine stood still count.
    """

    lasts_s: float = math.inf
    """Infinite: there is no other process that could take over a run."""
    elapsed_s: Callable[[], float] = boot_time
    _renewed_at: float = field(init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _lost: set[RunKey] = field(default_factory=set)
    _held_since: float = field(init=False)
    _unconfirmed: set[RunKey] = field(default_factory=set)
    """Claimed before `_held_since`, and not in a heartbeat yet."""

    def __post_init__(self) -> None:
        """A new process has no run yet that another could take over."""
        self._renewed_at = self._held_since = self.elapsed_s()

    @property
    def term_s(self) -> float:
        """The unit of time of heartbeats and takeovers."""
        return min(self.lasts_s, DEFAULT_LEASE_S)

    @property
    def overdue_s(self) -> float:
        """For how long it has not been held."""
        return max(0.0, self.elapsed_s() - self._renewed_at - self.lasts_s)

    @property
    def is_held(self) -> bool:
        """Whether the process may act for those of its runs that are not lost."""
        return self.elapsed_s() - self._renewed_at < self.lasts_s

    def renew(self, runs: Iterable[RunKey] = (), *, since: float) -> None:
        """The database has confirmed those of these runs that are not lost, after `since` (boot time)."""
        if not self.is_held:
            self._held_since = since
        self._unconfirmed.difference_update(runs)
        self._renewed_at = max(self._renewed_at, since)
        self._changed.set()

    def add(self, run: RunKey, *, since: float) -> None:
        """This process has claimed a run, with a statement from after `since`, when the lease was held.

        If it has not been held ever since, another process may have taken the run over already, and the
        heartbeat that renewed the lease did not know of the run: the next one does.
        """
        if self._held_since > since or not self.is_held:
            self._unconfirmed.add(run)

    def lose(self, runs: Iterable[RunKey]) -> None:
        """Another process has taken these runs over, or has ended them."""
        self._lost.update(runs)
        self._changed.set()

    def forget(self, run: RunKey) -> None:
        """A run has ended in this process."""
        self._lost.discard(run)
        self._unconfirmed.discard(run)

    def is_lost(self, run: RunKey) -> bool:
        """Whether this process must never act for the run again."""
        return run in self._lost

    async def wait_held(self, run: RunKey, *, within_s: float) -> bool:
        """Wait until the process may act for the run, `within_s` at most; returns whether it may."""
        deadline = asyncio.get_running_loop().time() + within_s
        while not self._may_act(run) and not self.is_lost(run):
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                break
        return self._may_act(run) and not self.is_lost(run)

    def _may_act(self, run: RunKey) -> bool:
        return self.is_held and run not in self._unconfirmed
