"""Timer: notices that schedules are due. Without one the database's clock does."""

from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

Overdue = Literal["start", "miss", "leave"]
"""What is done with due times that have come: `start` the latest, count all as missed, or `leave` them to the
other timer."""


class Timer(Protocol):
    """Notices that schedules are due."""

    def due_before(self, now: datetime) -> datetime:
        """Due times up to this moment should have been noticed."""
        ...

    async def overdue(self, schedule: UUID) -> Overdue:
        """What is done with due times of this schedule that were not; raises `Unavailable`."""
        ...
