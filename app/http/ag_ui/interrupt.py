"""Permission requests and questions as AG-UI interrupts, and the schemas of their answers."""

import re
from typing import Any, Final, NamedTuple, Self, TypeAlias

from ag_ui.core import Interrupt

from app.events import PermissionRequest, QuestionAsked
from app.ids import RUN_ID_PATTERN

METADATA_KEY: Final = "runtally"
"""Our key in `metadata` and `forwardedProps`."""

PersonRequest: TypeAlias = PermissionRequest | QuestionAsked
"""What a run waits for a person with."""

DECISION_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Replaces the arguments; not merged."},
        "message": {"type": "string", "description": "For the model: why."},
        "stop": {"type": "boolean", "description": "Whether a denial ends the run."},
        "forConversation": {
            "type": "boolean",
            "description": "Whether later calls are approved, too; if the metadata has grantable.",
        },
    },
    "required": ["approved"],
}
"""JSON schema of a decision, in AG-UI's form of approvals."""

ANSWERS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "answers": {
            "type": "object",
            "description": "By the text of a question, or its index.",
            "additionalProperties": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
            },
        }
    },
    "required": ["answers"],
}
"""JSON schema of the answers to questions."""

_ID: Final = re.compile(rf"({RUN_ID_PATTERN[1:-1]})/([0-9]{{1,9}})/([^/]{{1,128}})")


class InterruptId(NamedTuple):
    """A request to a person and the last position its client has received; clients send it back."""

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


def build_interrupt(interrupt_id: InterruptId, request: PersonRequest, *, subagent: str | None) -> Interrupt:
    """The interrupt of a request; `subagent` is the tool call that started the caller."""
    if isinstance(request, QuestionAsked):
        asked = request.model_dump(mode="json", by_alias=True, include={"source", "questions"})
        return Interrupt(
            id=str(interrupt_id),
            reason="input_required",
            message="\n".join(each.question for each in request.questions),
            tool_call_id=request.tool_call_id,
            response_schema=ANSWERS_SCHEMA,
            expires_at=request.expires_at,
            metadata={METADATA_KEY: asked},
        )
    return Interrupt(
        id=str(interrupt_id),
        # assistant-ui shows its buttons for this reason only.
        reason="tool_call",
        message=f"May {request.tool_name} be called?",
        tool_call_id=request.tool_call_id,
        response_schema=DECISION_SCHEMA,
        expires_at=request.expires_at,
        metadata={
            METADATA_KEY: request.model_dump(
                mode="json", by_alias=True, include={"tool_name", "args", "grantable"}
            )
        },
        subagent_run_id=subagent,
    )
