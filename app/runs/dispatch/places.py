"""Places: how many runs this process may execute at once."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.ids import RunKey


@dataclass(slots=True)
class PlaceClaim:
    """A place that was taken before its run is stored, if one was free."""

    has_place: bool
    used_by: RunKey | None = None
    """The run that holds it from now on; its end gives it back."""


@dataclass(slots=True)
class Places:
    """The places of this process for runs."""

    total: int
    taken: int = 0
    is_closed: bool = False
    """Whether this process executes no further run: it is about to stop."""
    may_have_backlog: bool = True
    """Whether runs may wait in the database for a worker: a free place is theirs first."""
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a place becomes free while runs may wait."""
    emptied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no place is taken."""

    def __post_init__(self) -> None:
        """No place is taken yet."""
        self.emptied.set()

    @property
    def free(self) -> int:
        """How many further runs this process may execute."""
        return 0 if self.is_closed else max(0, self.total - self.taken)

    @property
    def load(self) -> float:
        return self.taken / self.total if self.total else 1.0

    def take(self, count: int = 1) -> None:
        """Take places for runs that this process executes from now on, also if none is free."""
        self.taken += count
        self.emptied.clear()

    def give_back(self, count: int = 1) -> None:
        """Their runs have ended."""
        self.taken -= count
        if self.taken <= 0:
            self.emptied.set()
        if self.may_have_backlog:
            self.freed.set()

    @contextmanager
    def claim(self, *, wanted: bool = True) -> Iterator[PlaceClaim]:
        """Take a place if it is wanted, free, and no run waits for it; given back unless it is used."""
        claim = PlaceClaim(wanted and self.free > 0 and not self.may_have_backlog)
        if claim.has_place:
            self.take()
        try:
            yield claim
        finally:
            if claim.has_place and claim.used_by is None:
                self.give_back()
