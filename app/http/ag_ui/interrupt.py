"""Permission requests as AG-UI interrupts, and the schema of their answers."""

import re
from typing import Any, Final, NamedTuple, Self

from ag_ui.core import Interrupt

from app.events import PermissionRequest
from app.ids import RUN_ID_PATTERN

METADATA_KEY: Final = "runtally"
"""Our key in `metadata` and `forwardedProps`."""

ANSWER_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Replaces the arguments; not merged."},
        "message": {"type": "string", "description": "For the model: why."},
        "stop": {"type": "boolean", "description": "Whether a denial ends the run."},
    },
    "required": ["approved"],
}
"""JSON schema of a decision, in AG-UI's form of approvals."""

_ID: Final = re.compile(rf"({RUN_ID_PATTERN[1:-1]})/([0-9]{{1,9}})/([^/]{{1,128}})")


class InterruptId(NamedTuple):
    """A permission request and the last position its client has received; clients send it back."""

    run_id: str
    position: int
    request_id: str

    def __str__(self) -> str:
        return f"{self.run_id}/{self.position}/{self.request_id}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse an id; None if it is malformed. Run ids contain no slash."""
        found = _ID.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]), found[3])


def build_interrupt(
    interrupt_id: InterruptId, request: PermissionRequest, *, subagent: str | None
) -> Interrupt:
    """The interrupt of a permission request; `subagent` is the tool call that started the caller."""
    return Interrupt(
        id=str(interrupt_id),
        # assistant-ui shows its buttons for this reason only.
        reason="tool_call",
        message=f"May {request.tool_name} be called?",
        tool_call_id=request.tool_call_id,
        response_schema=ANSWER_SCHEMA,
        expires_at=request.expires_at,
        metadata={METADATA_KEY: {"toolName": request.tool_name, "args": request.args}},
        subagent_run_id=subagent,
    )
