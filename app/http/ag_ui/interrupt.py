"""A request for consent as an interrupt of AG-UI, and what may be answered."""

import re
from typing import Any, Final, NamedTuple, Self

from ag_ui.core import Interrupt

from app.events import PermissionRequest
from app.ids import RUN_ID_PATTERN

OURS: Final = "runtally"
"""The key of what is ours in their `metadata` and `forwardedProps`."""

ANSWER_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Replaces the arguments; not merged."},
        "message": {"type": "string", "description": "For the model: why."},
    },
    "required": ["approved"],
}
"""What a person may answer, as AG-UI spells approvals."""

_ID: Final = re.compile(rf"({RUN_ID_PATTERN[1:-1]})/([0-9]{{1,9}})/([^/]{{1,128}})")


class InterruptId(NamedTuple):
    """Names a request for consent and how far its client has heard the run; all of it ours to read back."""

    run_id: str
    position: int
    request_id: str

    def __str__(self) -> str:
        return f"{self.run_id}/{self.position}/{self.request_id}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The one this names; None when it names none. Run ids hold no slash."""
        found = _ID.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]), found[3])


def interrupt_of(interrupt_id: InterruptId, request: PermissionRequest, *, subagent: str | None) -> Interrupt:
    """What the client of a run is asked; `subagent` is the invocation that made the call."""
    return Interrupt(
        id=str(interrupt_id),
        reason="tool_call",
        message=f"May {request.tool_name} be called?",
        tool_call_id=request.tool_call_id,
        response_schema=ANSWER_SCHEMA,
        expires_at=request.expires_at,
        metadata={OURS: {"toolName": request.tool_name, "args": request.args}},
        subagent_run_id=subagent,
    )
