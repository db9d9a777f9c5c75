"""The names of time zones."""

from typing import Final
from zoneinfo import available_timezones

from app.errors import Invalid

_TIME_ZONES: Final = frozenset(available_timezones()) - {"localtime"}
"""Collected at once: that walks a directory tree, which finds nothing where no more files can be opened.

On some machines it contains a name for the local zone, which is no IANA name and unknown to PostgreSQL.
"""


def require_time_zone(name: str) -> None:
    """Raise `Invalid` for the parameter or field `timeZone` unless it is an IANA name."""
    if name not in _TIME_ZONES:
        raise Invalid.field("timeZone", "must be an IANA time zone, for example Europe/Berlin")
