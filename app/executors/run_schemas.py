"""RunSchemas: the JSON schemas that come with a request, prepared for all that a run does with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.platform.json_schema.document import SchemaDocument
from app.platform.json_schema.model_schema import ModelSchema


@dataclass(frozen=True, slots=True)
class ClientToolSchema:
    """The schema of the arguments of a tool that the client executes."""

    checked: SchemaDocument
    """What the arguments are checked against."""
    shown: dict[str, Any]
    """As the model sees it."""
    note: str
    """What the tool's description says about the rest."""


@dataclass(frozen=True, slots=True)
class RunSchemas:
    """The schemas of one request."""

    answer: ModelSchema | None = None
    client_tools: Mapping[str, ClientToolSchema] = field(default_factory=dict)
    """By the names of the tools."""


NO_SCHEMAS = RunSchemas()
