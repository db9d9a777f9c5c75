"""A request for consent as an interrupt of AG-UI, and what may be answered."""

from typing import Any, Final

from ag_ui.core import Interrupt

from app.events import PermissionRequest

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


def interrupt_id(run_id: str, request_id: str) -> str:
    """Names a request for consent; run ids hold no slash."""
    return f"{run_id}/{request_id}"


def interrupt_of(run_id: str, request: PermissionRequest, *, subagent: str | None) -> Interrupt:
    """What the client of a run is asked; `subagent` is the invocation that made the call."""
    return Interrupt(
        id=interrupt_id(run_id, request.request_id),
        reason="tool_call",
        message=f"May {request.tool_name} be called?",
        tool_call_id=request.tool_call_id,
        response_schema=ANSWER_SCHEMA,
        expires_at=request.expires_at,
        metadata={OURS: {"toolName": request.tool_name, "args": request.args}},
        subagent_run_id=subagent,
    )
