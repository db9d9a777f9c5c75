"""Clock: the time by which messages are priced and budgets counted, even if the host's clock jumps; no I/O.

A message is charged for ever to the month in which it began, so one clock must not decide alone. The host's
clock is compared with the time that has passed since the start, with the database and with the provider.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import structlog

from app.platform.clock.boot_time import boot_time

log = structlog.get_logger(__name__)

Witness = Literal["start", "database", "provider"]

TOLERANCE = timedelta(minutes=5)
"""Clocks that differ by less agree; then the host's clock is used, which is the finest."""

_WEIGHTS: dict[Witness, int] = {"start": 1, "database": 1, "provider": 2}
"""The database is often on the same host, whose jump moves both: provider and start must outweigh them."""


def host_time() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Clock:
    """The median of what the clocks say; the provider's counts twice."""

    host: Callable[[], datetime] = host_time
    elapsed_s: Callable[[], float] = boot_time
    _anchors: dict[Witness, timedelta] = field(default_factory=dict)
    """By witness: its time, less the time elapsed when it was observed."""
    _disagreeing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Remember the host's time at the start."""
        self._anchors["start"] = self._anchor(self.host())

    def now(self) -> datetime:
        """The time: that of the host, unless the other clocks contradict it."""
        host = self.host()
        agreed = self._median(host)
        self._note("host", host, agreed)
        return host if abs(host - agreed) <= TOLERANCE else agreed

    @property
    def ahead_of_database_s(self) -> float:
        """How far `now` is ahead of the database's clock, and at most by the time its answer took more."""
        return (self.now() - self.database_now()).total_seconds()

    def database_now(self) -> datetime:
        """The time of the database's clock, for what is compared with times that it has stored."""
        anchor = self._anchors.get("database")
        return self.now() if anchor is None else _EPOCH + anchor + timedelta(seconds=self.elapsed_s())

    def observe(self, witness: Witness, at: datetime) -> None:
        """What another clock says now."""
        self._anchors[witness] = self._anchor(at)
        self._note(witness, at, self._median(self.host()))

    def _median(self, host: datetime) -> datetime:
        elapsed = timedelta(seconds=self.elapsed_s())
        readings = [host]
        for name, anchor in self._anchors.items():
            readings += [_EPOCH + anchor + elapsed] * _WEIGHTS[name]
        # Of two in the middle the earlier: a jump forward would open the budget of another month.
        return sorted(readings)[(len(readings) - 1) // 2]

    def _anchor(self, at: datetime) -> timedelta:
        return at - _EPOCH - timedelta(seconds=self.elapsed_s())

    def _note(self, name: str, reading: datetime, agreed: datetime) -> None:
        if abs(reading - agreed) <= TOLERANCE:
            self._disagreeing.discard(name)
        elif name not in self._disagreeing:
            self._disagreeing.add(name)
            log.critical("clock.disagrees", clock=name, reading=reading, used=agreed)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
