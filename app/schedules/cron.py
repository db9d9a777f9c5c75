"""Timing: when a schedule is due: a cron expression in a time zone, within a period; pure.

The expressions are those of Debian's cron, and so is what happens when clocks are changed: see
`docs/api/schedules.md`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from app.errors import Invalid
from app.platform.clock.time_zones import require_time_zone

MAX_CRON_CHARS = 200
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = 5
_HORIZON = timedelta(days=50 * 365)
_INSTANT = timedelta(microseconds=1)
_LONGEST_SHIFT = timedelta(hours=3)
"""No clock is changed by more; where one is, some missed times are not listed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When a schedule is due."""

    cron: str
    """Empty: never, as of a deployment that only clients start."""
    time_zone: str = "UTC"
    start_at: datetime | None = None
    """The first moment at which it may be due."""
    end_at: datetime | None = None
    """The first moment at which it is not due any more."""

    def check(self, now: datetime) -> None:
        """Raise `Invalid` naming the field unless there is a due time after `now`."""
        require_time_zone(self.time_zone)
        if not self.cron:
            return
        _check_expression(self.cron)
        if self.start_at is not None and self.start_at > now + _HORIZON:
            raise Invalid.field("startAt", "must be in the next 50 years")
        if self.end_at is not None and self.end_at <= max(now, self.start_at or now):
            raise Invalid.field("endAt", "must be later than startAt, and in the future")
        if self.next_after(now) is None:
            field, problem = "cron", "matches no time in the next 50 years"
            if self.end_at is not None:
                field, problem = "endAt", "must be later than the first time that cron matches"
            raise Invalid.field(field, problem)

    def next_after(self, moment: datetime) -> datetime | None:
        """The first due time after this moment; None if there is none in the next 50 years."""
        return next(self._after(moment), None)

    def upcoming(self, moment: datetime, *, most: int) -> list[datetime]:
        """The first due times after this moment."""
        return list(islice(self._after(moment), most))

    def latest(self, first: datetime, until: datetime, *, most: int) -> list[datetime]:
        """The due times from `first`, which is one, to `until`, oldest first; of many, the latest `most`.

        Takes no longer for a gap of years.
        """
        since = first - _INSTANT
        # Backwards the library may give other times while clocks are changed: they only limit where to begin.
        backwards = CronSim(_expanded(self.cron), until.astimezone(ZoneInfo(self.time_zone)), reverse=True)
        for _, time in zip(range(most), backwards, strict=False):
            since = max(first - _INSTANT, time.astimezone(UTC) - _LONGEST_SHIFT)
            if since < first:
                break
        return list(takewhile(lambda time: time <= until, self._after(since)))[-most:]

    def _after(self, moment: datetime) -> Iterator[datetime]:
        """The due times after this moment, in UTC."""
        if not self.cron:
            return
        has_begun = self.start_at is None or self.start_at <= moment
        last = moment if has_begun or self.start_at is None else self.start_at - _INSTANT
        times = CronSim(_expanded(self.cron), last.astimezone(ZoneInfo(self.time_zone)))
        while (time := _next(times)) is not None and (self.end_at is None or time < self.end_at):
            # The library counts in local time: where an hour is repeated it would return to its beginning.
            if time > last:
                last = time
                yield time


def _next(times: CronSim) -> datetime | None:
    try:
        return next(times).astimezone(UTC)
    except (StopIteration, OverflowError):
        # Beyond 50 years, or beyond the calendar.
        return None


def _check_expression(cron: str) -> None:
    if len(cron) > MAX_CRON_CHARS:
        raise Invalid.field("cron", f"must not be longer than {MAX_CRON_CHARS} characters")
    expression = _expanded(cron)
    if expression.startswith("@"):
        raise Invalid.field("cron", f"must be five fields, or one of {', '.join(_MACROS)}")
    if (count := len(expression.split())) != _FIELDS:
        fields = "minute, hour, day of month, month, day of week"
        raise Invalid.field("cron", f"must have five fields ({fields}), not {count}; there are no seconds")
    try:
        CronSim(expression, datetime.now(UTC))
    except CronSimError as error:
        name = str(error).removeprefix("Bad ").replace("-", " ")
        raise Invalid.field("cron", f"has an invalid {name}") from error


def _expanded(cron: str) -> str:
    return _MACROS.get(cron.strip().lower(), cron)
