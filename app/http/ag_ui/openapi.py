"""OpenAPI schemas of the AG-UI wire."""

from functools import cache
from typing import Annotated, Any, Final

from ag_ui import core
from pydantic import Field, TypeAdapter

from app.http.ag_ui.releases.dialect import ThinkingEvent
from app.http.openapi.document import server_sent
from app.ids import RUN_ID_PATTERN, STATE_KEY_PATTERN

AG_UI_EVENT: Final = "AgUiEvent"
AG_UI_INPUT: Final = "AgUiRunAgentInput"
"""The posted input; `RUN_STARTED` has a field of this type, so it is among the schemas."""

_EMITTED_EVENTS: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        core.RunStartedEvent
        | core.RunFinishedEvent
        | core.RunErrorEvent
        | core.StepStartedEvent
        | core.StepFinishedEvent
        | core.MessagesSnapshotEvent
        | core.TextMessageStartEvent
        | core.TextMessageContentEvent
        | core.TextMessageEndEvent
        | core.ReasoningStartEvent
        | core.ReasoningMessageStartEvent
        | core.ReasoningMessageContentEvent
        | core.ReasoningMessageEndEvent
        | core.ReasoningEndEvent
        | ThinkingEvent
        | core.ToolCallStartEvent
        | core.ToolCallArgsEvent
        | core.ToolCallEndEvent
        | core.ToolCallResultEvent
        | core.SubagentStartedEvent
        | core.SubagentFinishedEvent
        | core.SubagentErrorEvent
        | core.CustomEvent,
        Field(discriminator="type"),
    ]
)
"""The AG-UI events that the mapper emits."""

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events of AG-UI 1.0, from `RUN_STARTED` to `RUN_FINISHED` or `RUN_ERROR`.",
        "content": server_sent(AG_UI_EVENT),
    }
}
_POSTED_INPUT: Final = "AgUiPostedInput"
INPUT: dict[str, Any] = {"$ref": f"#/components/schemas/{_POSTED_INPUT}"}
"""OpenAPI schema of the body; `AgUiInput` validates it."""

_CONSTRAINTS: Final[dict[str, dict[str, Any]]] = {
    "threadId": {"pattern": STATE_KEY_PATTERN},
    "runId": {"pattern": RUN_ID_PATTERN},
}

_BINARY_PART: Final = "AgUiBinaryPart"
_BINARY: Final[dict[str, Any]] = {
    "type": "object",
    "description": "An attachment as releases of @ag-ui/client before 1.0 post it, with `data` or `url`.",
    "properties": {
        "type": {"const": "binary", "type": "string"},
        "mimeType": {"type": "string"},
        "data": {"type": "string", "description": "In base64."},
        "url": {"type": "string", "description": "Also a `data:` URL."},
        "id": {"type": "string"},
        "filename": {"type": "string"},
    },
    "required": ["type", "mimeType"],
}

_NULL: Final = {"type": "null"}


@cache
def ag_ui_schemas() -> dict[str, Any]:
    """Schemas of these events and their parts, and their union as `AgUiEvent`."""
    schema = _EMITTED_EVENTS.json_schema(
        ref_template="#/components/schemas/AgUi{model}", mode="serialization", by_alias=True
    )
    models = schema.pop("$defs")
    for model in models.values():
        _tighten(model)
    named = {f"AgUi{name}": model for name, model in models.items()}
    _, parts = named["AgUiUserMessage"]["properties"]["content"]["anyOf"]
    reference = f"#/components/schemas/{_BINARY_PART}"
    parts["items"]["oneOf"].append({"$ref": reference})
    parts["items"]["discriminator"]["mapping"]["binary"] = reference
    posted = {_BINARY_PART: _BINARY, _POSTED_INPUT: _constrained(named[AG_UI_INPUT])}
    return {**named, **posted, AG_UI_EVENT: schema}


def _constrained(model: dict[str, Any]) -> dict[str, Any]:
    """The schema of the input with the rules of this server."""
    properties = {
        name: {**schema, **_CONSTRAINTS.get(name, {})} for name, schema in model["properties"].items()
    }
    return {**model, "description": "A request to run an agent.", "properties": properties}


def _tighten(model: dict[str, Any]) -> None:
    """Make discriminators required, and optional fields not nullable."""
    for name, schema in model.get("properties", {}).items():
        if "const" in schema and name not in model.setdefault("required", []):
            model["required"].append(name)
        if _NULL in schema.get("anyOf", ()):
            schema["anyOf"].remove(_NULL)
            del schema["default"]
