"""The schedule of retries; pure."""

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
"""Why an attempt failed. Accounts see this and the status, nothing else."""

RETRY_SCHEDULE = tuple(
    timedelta(seconds=seconds) for seconds in (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 10 * 3600)
)
"""The delays between attempts recommended by Standard Webhooks; the first attempt is immediate."""

LONGEST_WAIT = timedelta(hours=12)
"""No delivery waits for longer, whatever its receiver has requested."""

MAX_RETRY_AFTER = timedelta(hours=1)
"""The longest delay a receiver can request with `Retry-After`."""

GONE = 410
_JITTER = 0.1
_RETRY_AFTER_STATUSES = {429, 503}
_OK = range(200, 300)
_random = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class ReceiverResponse:
    """The result of an attempt: the receiver's status, or the reason there is none."""

    status: int | None = None
    problem: DeliveryProblem | None = None
    retry_after: timedelta | None = None
    """The delay the receiver requested."""

    @property
    def accepted(self) -> bool:
        """Whether the receiver has the message now."""
        return self.problem is None


def parse_response(
    status: int, retry_after: str | None, *, now: datetime, is_duplicate: bool = False
) -> ReceiverResponse:
    """The result for a response with this status; `is_duplicate`: the receiver already has the message."""
    problem: DeliveryProblem | None = None if status in _OK or is_duplicate else "bad_status"
    return ReceiverResponse(
        status, problem, _parse_retry_after(retry_after, now) if status in _RETRY_AFTER_STATUSES else None
    )


def retry_delay(
    attempts: int, response: ReceiverResponse, retry_schedule: Sequence[timedelta] = RETRY_SCHEDULE
) -> timedelta | None:
    """The delay before the next attempt, after `attempts` of which the last failed; None: give up."""
    if attempts > len(retry_schedule):
        return None
    # Jitter: deliveries that failed together are not repeated together.
    delay = retry_schedule[attempts - 1] * _random.uniform(1, 1 + _JITTER)
    return delay if response.retry_after is None else max(delay, min(response.retry_after, MAX_RETRY_AFTER))


def _parse_retry_after(text: str | None, now: datetime) -> timedelta | None:
    """Parse a `Retry-After` header: seconds or a date; None if it is invalid."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), int(MAX_RETRY_AFTER.total_seconds())))
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
