"""The names of time zones."""

from functools import cache
from zoneinfo import available_timezones

from app.errors import Invalid


@cache
def _time_zones() -> frozenset[str]:
    # Collecting them walks a directory tree. On some machines it contains a name for the local zone, which
    # is no IANA name and unknown to PostgreSQL.
    return frozenset(available_timezones()) - {"localtime"}


def require_time_zone(name: str) -> None:
    """Raise `Invalid` for the parameter or field `timeZone` unless it is an IANA name."""
    if name not in _time_zones():
        raise Invalid.field("timeZone", "must be an IANA time zone, for example Europe/Berlin")
