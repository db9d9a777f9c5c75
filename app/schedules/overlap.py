"""Overlap: what happens to a due time while an earlier run of its schedule has not ended; pure."""

from dataclasses import dataclass
from typing import Literal

Overlap = Literal["skip", "queue", "cancel", "allow"]
"""`skip`: no run is started. `queue`: one run waits, and starts when the others have ended. `cancel`: the
others are cancelled. `allow`: it is started all the same."""

Decision = Literal["start", "wait", "skip"]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What else there is of a schedule when one of its due times is decided."""

    is_starting: bool
    """The run of another due time is being started: whether it will exist is not known yet."""
    is_running: bool
    """A run has not ended."""
    is_waiting: bool
    """Another due time waits."""


def decide(overlap: Overlap, occupancy: Occupancy) -> Decision:
    """What happens to a new due time."""
    is_free = not (occupancy.is_starting or occupancy.is_running)
    if overlap == "allow" or (is_free and not occupancy.is_waiting):
        return "start"
    match overlap:
        case "skip":
            return "skip"
        case "queue":
            return "skip" if occupancy.is_waiting else "wait"
        case "cancel":
            # What is being started can be cancelled only once it has been.
            return "wait" if occupancy.is_starting or occupancy.is_waiting else "start"


def may_start(overlap: Overlap, occupancy: Occupancy) -> bool:
    """Whether a due time that waits is started now; the policy may have changed meanwhile."""
    if overlap == "allow":
        return True
    return not occupancy.is_starting and (overlap == "cancel" or not occupancy.is_running)
