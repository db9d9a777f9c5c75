"""What AG-UI's clients are told, in the words of the OpenAPI document."""

from functools import cache
from typing import Annotated, Any, Final

from ag_ui.core import (
    CustomEvent,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic import Field, TypeAdapter

AG_UI_EVENT: Final = "AgUiEvent"
AG_UI_INPUT: Final = "AgUiRunAgentInput"
"""What is posted; it is there because RUN_STARTED could repeat it."""

_SAID: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        RunStartedEvent
        | RunFinishedEvent
        | RunErrorEvent
        | StepStartedEvent
        | StepFinishedEvent
        | MessagesSnapshotEvent
        | TextMessageStartEvent
        | TextMessageContentEvent
        | TextMessageEndEvent
        | ReasoningStartEvent
        | ReasoningMessageStartEvent
        | ReasoningMessageContentEvent
        | ReasoningMessageEndEvent
        | ReasoningEndEvent
        | ToolCallStartEvent
        | ToolCallArgsEvent
        | ToolCallEndEvent
        | ToolCallResultEvent
        | SubagentStartedEvent
        | SubagentFinishedEvent
        | SubagentErrorEvent
        | CustomEvent,
        Field(discriminator="type"),
    ]
)
"""Of AG-UI's events those that are said here."""

_NULL: Final = {"type": "null"}


@cache
def ag_ui_schemas() -> dict[str, Any]:
    """The schema of each of these events, of what is in them, and of all of them as `AgUiEvent`."""
    schema = _SAID.json_schema(
        ref_template="#/components/schemas/AgUi{model}", mode="serialization", by_alias=True
    )
    models = schema.pop("$defs")
    for model in models.values():
        _mend(model)
    return {**{f"AgUi{name}": model for name, model in models.items()}, AG_UI_EVENT: schema}


def _mend(model: dict[str, Any]) -> None:
    """What says which kind it is, is always there; what may be left out is never null."""
    for name, schema in model.get("properties", {}).items():
        if "const" in schema and name not in model.setdefault("required", []):
            model["required"].append(name)
        if _NULL in schema.get("anyOf", ()):
            schema["anyOf"].remove(_NULL)
            del schema["default"]
