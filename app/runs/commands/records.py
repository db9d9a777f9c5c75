"""The data of stored commands."""

from dataclasses import dataclass
from typing import Any

from app.ids import RunKey


@dataclass(frozen=True, slots=True)
class StoredCommand:
    """A command that has no answer yet."""

    id: int
    run: RunKey
    command: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PendingCommands:
    """The commands of a run that have no answer yet."""

    count: int
    size: int
    """In bytes."""
    stops: dict[str, int]
    """The ids of stop commands, by their kind."""
