"""Which tools a run may call, and with whose consent."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from app.tools.tool import Tool, ToolContext


class ToolCallDenied(Exception):
    """A call may not be made; the text is for the model."""


Review: TypeAlias = Callable[[Tool, object, ToolContext], Awaitable[object]]
"""Asks whether a call with these arguments may be made, and returns those to make it with.

Raises `ToolCallDenied`.
"""


def _none() -> None:
    return None


async def _as_asked(_tool: Tool, args: object, _context: ToolContext) -> object:
    return args


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """Denies by default."""

    allowed: frozenset[str] = frozenset()
    objection: Callable[[], str | None] = _none
    """Why no tool may run now, in words for the model; None when nothing is against it."""
    review: Review = _as_asked
    """The last word on a call that is otherwise in order; it may take as long as a person does."""

    def permits(self, tool_id: str) -> bool:
        """Whether this tool may be called."""
        return tool_id in self.allowed
