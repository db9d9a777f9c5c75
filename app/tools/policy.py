"""Which tools a run may call: those named, and no other."""

from collections.abc import Callable
from dataclasses import dataclass


def _none() -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """Denies by default."""

    allowed: frozenset[str] = frozenset()
    objection: Callable[[], str | None] = _none
    """Why no tool may run now, in words for the model; None when nothing is against it."""

    def permits(self, tool_id: str) -> bool:
        """Whether this tool may be called."""
        return tool_id in self.allowed
