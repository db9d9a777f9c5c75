"""TemporalTimer: what becomes of due times that Temporal has not noticed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from app.platform.db import Database
from app.schedules.firing.port import Overdue
from app.schedules.temporal.repository import mark_unmirrored
from app.schedules.temporal.schedules import TemporalSchedules

GRACE = timedelta(seconds=10)
"""How late Temporal may fire, before the servers look."""

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TemporalTimer:
    """See the protocol `Timer`."""

    database: Database
    schedules: TemporalSchedules

    def due_before(self, now: datetime) -> datetime:
        """No due time while Temporal is away: it could not give the run to a worker either."""
        return _NEVER if self.schedules.temporal.is_away else now - GRACE

    async def overdue(self, schedule: UUID) -> Overdue:
        """Missed while a person has paused the schedule in Temporal.

        Otherwise it is not there, or Temporal is late, or it does not know this due time.
        """
        status = await self.schedules.status(schedule)
        if status == "missing":
            async with self.database.write() as tx:
                await mark_unmirrored(tx, [schedule])
        return "miss" if status == "paused" else "start"
