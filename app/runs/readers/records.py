"""What is stored of a run's readers."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

Seen: TypeAlias = frozenset[tuple[UUID, datetime]]
"""The processes that have, or had, readers of a run, and when each last renewed that."""


@dataclass(frozen=True, slots=True)
class ReadersOfRun:
    """The readers of a run."""

    has_ended: bool
    seen: Seen
    """Empty for a run that never had a reader, or whose reader received all there is for now."""
