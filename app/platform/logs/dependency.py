"""DependencyLog: one log line when something the server depends on goes, and one when it is back."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

QUIET_S: Final = 1.0
"""For what several tasks use: their calls end in any order, and a service that starts takes some and refuses
others."""


class DependencyLog:
    """What is known of one dependency from the calls of everything that uses it.

    However many tasks notice that it is away, it has two lines; the second one has for how long it was.
    """

    def __init__(
        self,
        *,
        unavailable: str,
        available: str,
        level: int = logging.WARNING,
        each_reason: bool = False,
        quiet_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`unavailable`, `available`: the log events of the two lines; `level` is that of the first.

        `each_reason`: a line for each new reason. `quiet_s`: it is back when a call has worked and none has
        failed for so long.
        """
        self._events = (unavailable, available)
        self._level = level
        self._each_reason = each_reason
        self._quiet_s = quiet_s
        self._now = now
        self._away_since = self._failed_at = 0.0
        self._reasons: list[str] = []
        """Of this outage; empty while it is available."""

    def __bool__(self) -> bool:
        """Whether it is away."""
        return bool(self._reasons)

    def failed(self, reason: str, **fields: Any) -> None:
        """It cannot be used; `reason` contains no secret."""
        self._failed_at = self._now()
        if not self._reasons:
            self._away_since = self._failed_at
        elif not self._each_reason or reason in self._reasons:
            return
        self._reasons.append(reason)
        log.log(self._level, self._events[0], reason=reason, **fields)

    def worked(self) -> None:
        """It was used."""
        if self._reasons and self._now() - self._failed_at >= self._quiet_s:
            self._reasons = []
            log.info(self._events[1], away_s=round(self._now() - self._away_since, 1))
