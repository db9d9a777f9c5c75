"""A clock for tests."""

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """Stands until a test moves it."""

    now: float = 100.0

    def __call__(self) -> float:
        """The time, in seconds."""
        return self.now
