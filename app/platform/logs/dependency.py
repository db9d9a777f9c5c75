"""DependencyLog: one log line when something the server depends on goes, and one when it is back."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

QUIET_S: Final = 1.0
"""For what several tasks use: their calls end in any order, and a service that starts takes some and refuses
others."""


@dataclass(slots=True)
class DependencyLog:
    """What is known of one dependency from the calls of everything that uses it.

    However many tasks notice that it is away, it has two lines; the second one has for how long it was.
    """

    unavailable: str
    """The log event of the line when it goes; `level` is that line's."""
    available: str
    """The log event of the line when it is back."""
    level: int = logging.WARNING
    each_reason: bool = False
    """A line for each new reason."""
    quiet_s: float = 0.0
    """It is back when a call has worked and none has failed for so long."""
    now: Callable[[], float] = time.monotonic
    _away_since: float = 0.0
    _failed_at: float = 0.0
    _reasons: list[str] = field(default_factory=list)
    """Of this outage; empty while it is available."""

    def __bool__(self) -> bool:
        """Whether it is away."""
        return bool(self._reasons)

    @property
    def reason(self) -> str | None:
        """Why it is away: the latest reason that was logged; None while it is available."""
        return self._reasons[-1] if self._reasons else None

    def failed(self, reason: str, **fields: Any) -> None:
        """It cannot be used; `reason` contains no secret."""
        self._failed_at = self.now()
        if not self._reasons:
            self._away_since = self._failed_at
        elif not self.each_reason or reason in self._reasons:
            return
        self._reasons.append(reason)
        log.log(self.level, self.unavailable, reason=reason, **fields)

    def worked(self) -> None:
        if self._reasons and self.now() - self._failed_at >= self.quiet_s:
            self._reasons = []
            log.info(self.available, away_s=round(self.now() - self._away_since, 1))
