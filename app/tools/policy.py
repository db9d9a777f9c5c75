"""Which tools a run may call: those named, and no other."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """Denies by default."""

    allowed: frozenset[str] = frozenset()

    def permits(self, tool_id: str) -> bool:
        """Whether this tool may be called."""
        return tool_id in self.allowed
