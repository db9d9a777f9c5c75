"""What entry points of installed packages may name."""

from runtally.tools.hooks import Hooks, ToolCall
from runtally.tools.tool import HookContext


class Audit(Hooks):
    """Denies every call."""

    async def before_tool(self, _context: HookContext, call: ToolCall) -> str | None:
        return f"Not {call.tool_name}."


class NeedsMore(Hooks):
    """Cannot be created without an argument."""

    def __init__(self, address: str) -> None:
        self.address = address


class NotAsync(Hooks):
    """A method of it is not async."""

    def before_tool(self, context: HookContext, call: ToolCall) -> None:  # type: ignore[override]
        """Allow everything."""


class NoHooks:
    """Not derived from `Hooks`."""


async def vault(context: HookContext, *, tool_id: str, name: str) -> str | None:
    """A provider."""
    return f"{context.run.run_id}/{tool_id}/{name}-A1b2C3d4"


def not_async(_context: HookContext, *, tool_id: str, name: str) -> str | None:
    """No provider."""
    return tool_id + name
