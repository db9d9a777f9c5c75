"""When a failed call is made again: as the official client does it; pure."""

import random
import time
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Final

MAX_RETRIES: Final = 2
"""Of a call, one after the other."""

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
_LONGEST_REQUESTED_S = 86_400.0
"""A run ends before."""
_TEMPORARY = {408, 409, 429}
_SERVER_ERROR = 500
_MS_PER_S = 1000


def is_temporary(status: int | None, headers: Mapping[str, str]) -> bool:
    """Whether a call that failed so may succeed later; a provider may say so itself."""
    match headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
    return status is None or status in _TEMPORARY or status >= _SERVER_ERROR


def pause_s(headers: Mapping[str, str], *, attempt: int) -> float:
    """How long to wait before this attempt, from 1: what the provider requests, or a growing pause."""
    requested = _requested_s(headers)
    # A number that is none compares as False.
    if requested is not None and requested > 0:
        return min(requested, _LONGEST_REQUESTED_S)
    pause = min(_FIRST_PAUSE_S * 2.0 ** (attempt - 1), _LONGEST_PAUSE_S)
    return pause * random.uniform(0.75, 1)  # noqa: S311 - so that calls do not come together


def _requested_s(headers: Mapping[str, str]) -> float | None:
    for name, unit_s in (("retry-after-ms", 1 / _MS_PER_S), ("retry-after", 1)):
        try:
            return float(headers.get(name, "")) * unit_s
        except ValueError:
            continue
    date = parsedate_tz(headers.get("retry-after"))
    try:
        return None if date is None else mktime_tz(date) - time.time()
    except (ValueError, OverflowError):
        return None
