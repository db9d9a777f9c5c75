"""Decisions: the data of what a person has decided; what waits for them is in `approvals` and `budget`."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from app.errors import Conflict, NotFound
from app.ids import ApiKeyId


class PermissionNotFound(NotFound):
    """No tool call of this run waits for this decision."""

    code = "permission_not_found"


class PermissionDecided(Conflict):
    """A different decision about this tool call was already made."""

    code = "permission_decided"


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision.

    `args` replace those of the model, `message` is shown to the model; `stop`: a denied call ends the run.
    """

    decision: Literal["allow", "deny"]
    args: dict[str, Any] | None = None
    message: str | None = None
    stop: bool = False
    grant_by: ApiKeyId | None = field(default=None, compare=False)
    """The key whose holder allows later calls of the tool in the conversation, too; None: only this one."""


GRANTED: Final = Decision("allow")
"""What an earlier decision for the conversation means for a call."""
