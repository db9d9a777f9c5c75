"""What a permission mode makes of the rule for a tool call."""

from typing import Final, Literal, Protocol

from app.graphs.rules.spec import Action
from app.requests.run_request import PermissionMode
from app.tools.policy import ToolCallDenied

_STRICTEST_FIRST: tuple[PermissionMode, ...] = (
    *("plan", "dontAsk", "default", "acceptEdits", "bypassPermissions"),
)

_FILE_EDITS: Final = frozenset({"Write", "Edit"})
"""The tools that change files and nothing else; they reach only files of the workspace."""

_ONLY_PLANS = "This run only plans: tools that change anything may not be called."
_NO_APPROVALS = "This call needs a person's approval, and this run requests none."


class _Called(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def read_only(self) -> bool: ...


def is_less_strict(mode: PermissionMode, *, than: PermissionMode) -> bool:
    """Whether `mode` allows more tool calls without approval than the other mode."""
    return _STRICTEST_FIRST.index(mode) > _STRICTEST_FIRST.index(than)


def permitted(mode: PermissionMode, tool: _Called, do: Action) -> Literal["allow", "ask"]:
    """Whether a call that no rule denies is allowed or waits for a person; raises `ToolCallDenied`."""
    if mode == "plan" and not tool.read_only:
        raise ToolCallDenied(_ONLY_PLANS)
    if do != "ask" or mode == "bypassPermissions" or (mode == "acceptEdits" and tool.id in _FILE_EDITS):
        return "allow"
    if mode == "dontAsk":
        raise ToolCallDenied(_NO_APPROVALS)
    return "ask"
