"""When a delivery is tried again; pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

DeliveryProblem = Literal[
    "address_refused",
    "name_not_found",
    "connection_failed",
    "connection_lost",
    "timeout",
    "bad_status",
    "internal",
]
"""Why an attempt failed; all an account ever learns of it, besides the status."""

SCHEDULE = tuple(
    timedelta(seconds=seconds) for seconds in (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 10 * 3600)
)
"""The pauses between attempts, as Standard Webhooks recommends; the first is made at once."""

LONGEST_WISH = timedelta(hours=1)
"""How far a receiver's `Retry-After` can put off the next attempt."""

GONE = 410
_JITTER = 0.1
_MAY_WISH = {429, 503}
_OK = range(200, 300)
_dice = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class ReceiverResponse:
    """How one attempt went: the receiver's status, or why there is none."""

    status: int | None = None
    problem: DeliveryProblem | None = None
    wish: timedelta | None = None
    """When the receiver wants to be asked again, from now."""

    @property
    def accepted(self) -> bool:
        """Whether the receiver took it."""
        return self.status in _OK


def answered(status: int, retry_after: str | None, *, now: datetime) -> ReceiverResponse:
    """What a receiver said."""
    problem: DeliveryProblem | None = None if status in _OK else "bad_status"
    return ReceiverResponse(status, problem, _wish(retry_after, now) if status in _MAY_WISH else None)


def pause_after(
    attempts: int, answer: ReceiverResponse, schedule: Sequence[timedelta] = SCHEDULE
) -> timedelta | None:
    """How long to wait after so many attempts, the last of which failed; None: no longer."""
    if attempts > len(schedule):
        return None
    # Spread, so that what failed together does not come back together.
    pause = schedule[attempts - 1] * _dice.uniform(1, 1 + _JITTER)
    return pause if answer.wish is None else max(pause, min(answer.wish, LONGEST_WISH))


def _wish(text: str | None, now: datetime) -> timedelta | None:
    """Read a `Retry-After`: seconds or a date; None for anything else."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), int(LONGEST_WISH.total_seconds())))
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
