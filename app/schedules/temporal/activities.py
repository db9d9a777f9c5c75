"""ScheduleActivities: decides what becomes of a time at which Temporal has fired a schedule."""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity

from app.errors import Unavailable
from app.platform.db import StatementFailed
from app.platform.temporal.retries import try_again
from app.schedules.firing.service import ScheduleFiring
from app.schedules.temporal.schedules import TemporalSchedules
from app.schedules.temporal.workflows import FIRE_SCHEDULE, FiredSchedule

_LONGEST_WAIT = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class ScheduleActivities:
    """Repeating one has no further effect."""

    firing: ScheduleFiring
    schedules: TemporalSchedules

    @activity.defn(name=FIRE_SCHEDULE)
    async def fire_schedule(self, fired: FiredSchedule) -> None:
        """Start the run of this time, or decide that it gets none. Deletes a schedule that has no row."""
        if not await self.firing.is_accepting():
            try_again("this process accepts no runs")
        try:
            ahead = fired.firing.moment - await self.firing.read_time()
            if ahead > timedelta():
                # Others need the worker meanwhile: the clocks may differ by much.
                try_again("the database's clock has not reached this time", after=min(ahead, _LONGEST_WAIT))
            if not await self.firing.fire(fired.id, fired.firing):
                await self.schedules.delete(fired.id)
        except (Unavailable, StatementFailed) as error:
            try_again(str(error))
