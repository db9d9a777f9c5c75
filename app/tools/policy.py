"""ToolPolicy: which tools a run may call, and which calls need approval."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from runtally.tools.tool import Tool, ToolContext


class ToolCallDenied(Exception):
    """A tool call is denied; the text is for the model."""


Review: TypeAlias = Callable[[Tool, object, ToolContext], Awaitable[object]]
"""Returns the arguments to make a call with; raises `ToolCallDenied`. May wait for a person's approval."""


def _allow_all() -> None:
    return None


async def _unchanged(_tool: Tool, args: object, _context: ToolContext) -> object:
    return args


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """Decides about tool calls; denies by default."""

    allowed: frozenset[str] = frozenset()
    denial_reason: Callable[[], str | None] = _allow_all
    """Why no tool may be called now, for the model; None if tools may be called."""
    review: Review = _unchanged
    """The last check of a valid call."""

    def permits(self, tool_id: str) -> bool:
        return tool_id in self.allowed
