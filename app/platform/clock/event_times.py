"""The times of events: milliseconds since 1970, in order within an attempt, and as RFC 3339."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from app.platform.clock.boot_time import boot_time
from app.platform.clock.clock import host_time

LATEST: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, which is the last that RFC 3339 can write."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class EventTimes:
    """The times of one attempt's events.

    The clock is read once. From then on the time that has passed counts, so that a clock that jumps changes
    neither the order of the times nor the time between two of them.
    """

    __slots__ = ("_elapsed_s", "_now", "_start")

    def __init__(
        self, now: Callable[[], datetime] = host_time, elapsed_s: Callable[[], float] = boot_time
    ) -> None:
        self._now = now
        self._elapsed_s = elapsed_s
        self._start: float | None = None
        """The time when nothing had elapsed."""

    def read(self) -> int:
        """The time."""
        elapsed = self._elapsed_s() * 1000
        if self._start is None:
            self._start = milliseconds(self._now()) - elapsed
        return int(self._start + elapsed)


def milliseconds(at: datetime) -> int:
    """A time in milliseconds since 1970, rounded down."""
    return (at - _EPOCH) // _MILLISECOND


def rfc3339(at: int) -> str:
    """A time in milliseconds since 1970 as `2026-11-24T10:00:00.123Z`."""
    second, millisecond = divmod(at, 1000)
    return f"{_second(second)}.{millisecond:03d}Z"


@lru_cache(maxsize=1024)
def _second(second: int) -> str:
    # Neighbouring events are of the same second.
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
