"""What Temporal shows of a schedule."""

from dataclasses import dataclass
from uuid import UUID

from app.schedules.records import PausedReason

_NOTE = "Runtally"


@dataclass(frozen=True, slots=True)
class ShownSchedule:
    """A schedule in Temporal, as it is listed."""

    note: str
    paused: bool


@dataclass(frozen=True, slots=True)
class MirroredRow:
    """What the list of Temporal's schedules is compared with."""

    id: UUID
    revision: int
    paused_reason: PausedReason | None

    @property
    def shown(self) -> ShownSchedule:
        """What Temporal should show."""
        note = note_of(self.revision, self.paused_reason)
        return ShownSchedule(note, paused=self.paused_reason is not None)


def note_of(revision: int, paused_reason: PausedReason | None) -> str:
    """The note of a schedule in Temporal, which people see, and replace when they pause it there."""
    note = f"{_NOTE}: revision {revision}"
    return note if paused_reason is None else f"{note}, paused ({paused_reason})"


def is_own(note: str | None) -> bool:
    """Whether a note is ours."""
    return (note or "").startswith(f"{_NOTE}: ")
