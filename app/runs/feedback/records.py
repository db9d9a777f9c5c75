"""The data of feedback."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

Rating: TypeAlias = Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a person thinks of a run's answer."""

    rating: Rating
    note: str | None
    at: datetime
    """When it was given."""
