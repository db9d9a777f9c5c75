"""JumpDetector: notices that a clock has jumped; no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from app.platform.clock.boot_time import boot_time


@dataclass(slots=True)
class JumpDetector:
    """Notices that a clock has jumped: less or more time has passed than it says."""

    tolerance_s: float
    elapsed_s: Callable[[], float] = boot_time
    _before: tuple[datetime, float] | None = None

    def has_jumped(self, at: datetime) -> bool:
        """Whether the clock, which says `at` now, has jumped since it was read last."""
        before, now = self._before, self.elapsed_s()
        self._before = (at, now)
        if before is None:
            return False
        said, passed = (at - before[0]).total_seconds(), now - before[1]
        return abs(said - passed) > self.tolerance_s
