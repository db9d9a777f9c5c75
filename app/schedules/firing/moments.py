"""What a timer other than the database's clock notices; pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.schedules.records import Schedule

LATEST = timedelta(minutes=2)
"""By how much a timer may be late. It fires later only if a person has it go through times of the past."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A timer has fired a schedule."""

    revision: int
    """Of the schedule, as far as the timer knew it."""
    moment: datetime
    """What it was fired for: a due time, in full minutes, or the second in which a person wanted a run."""
    fired_at: datetime

    def is_manual(self, schedule: Schedule) -> bool:
        """Whether a person wants a run for this moment, because it is none that the timer finds by itself.

        What the timer finds is decided by the schedule's row: it may have been changed or paused since, and
        clocks may be changed otherwise than the timer does it.
        """
        timing = schedule.terms.timing
        if self.moment.second or self.moment.microsecond:
            return True
        if self.fired_at - self.moment > LATEST:
            return timing.is_due(self.moment)
        return self.revision == schedule.revision and not timing.may_match_clock(self.moment)
