"""What another timer than the database's clock notices, and what becomes of what it has not noticed; pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol
from uuid import UUID

from app.schedules.records import Schedule

Overdue = Literal["start", "miss", "leave"]
"""What is done with due times that have come: `start` the latest, count all as missed, or `leave` them to the
other timer."""

LATEST = timedelta(minutes=2)
"""By how much a timer may be late. It fires later only if a person has it go through times of the past."""


class Timer(Protocol):
    """Notices that schedules are due."""

    def due_before(self, now: datetime) -> datetime:
        """Due times up to this moment should have been noticed."""
        ...

    async def overdue(self, schedule: UUID) -> Overdue:
        """What is done with due times of this schedule that were not; raises `Unavailable`."""
        ...


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
        return self.revision == schedule.revision and not timing.matches_clock(self.moment)
