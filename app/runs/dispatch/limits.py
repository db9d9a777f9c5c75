"""DispatchLimits: how many runs of an account may be active, and how many runs may be queued."""

from dataclasses import dataclass
from datetime import timedelta

from app.errors import TooMany

RETRY_AFTER_S = 5


class QueueFull(TooMany):
    """The queue of runs is full; try again later."""

    code = "queue_full"


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """Limits of all processes together; see the function `admission` of the database."""

    queued: int
    """How many runs may be queued beyond the places of all workers; half of them for one account."""
    per_account: int | None = None
    """How many runs of one account may be active: ready or running. None: three quarters of the places of all
    workers; all of them while there is only one account."""
    per_key: int | None = None
    """The same for one API key; None: no limit besides its account's."""
    kept_for: timedelta = timedelta()
    """How long a process keeps the agent of a conversation after a turn."""
    offered_for: timedelta = timedelta(milliseconds=100)
    """How long a conversation's next turn is kept for the process that keeps its agent."""
