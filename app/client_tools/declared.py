"""ClientTool: a tool that comes with a request and that the client executes; limits of such tools."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, to_json

CLIENT_TOOL_NAME = r"^[a-zA-Z0-9_-]{1,64}$"
MOST_CLIENT_TOOLS = 64
MOST_DESCRIPTION_CHARS = 4_096
MOST_SCHEMA_BYTES = 65_536
"""Of the schemas of a request's tools together."""

_PREFIX: Final = "client-"
"""The model sees the tools under it. No id of another tool begins so: those have no hyphen."""


class ClientTool(BaseModel):
    """A tool that the client executes; `inputSchema` is the JSON schema of its arguments."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=CLIENT_TOOL_NAME)]
    description: Annotated[str, Field(max_length=MOST_DESCRIPTION_CHARS)] = ""
    input_schema: dict[str, Any]

    @property
    def schema_bytes(self) -> int:
        """The size of its schema as JSON."""
        try:
            return len(to_json(self.input_schema))
        except (PydanticSerializationError, ValueError):
            return MOST_SCHEMA_BYTES + 1

    @property
    def size(self) -> int:
        """The approximate number of characters."""
        return len(self.name) + len(self.description) + self.schema_bytes


def _distinct_and_small(tools: tuple[ClientTool, ...]) -> tuple[ClientTool, ...]:
    if len({tool.name for tool in tools}) < len(tools):
        message = "contains a name twice"
        raise ValueError(message)
    if sum(tool.schema_bytes for tool in tools) > MOST_SCHEMA_BYTES:
        message = f"contains schemas of more than {MOST_SCHEMA_BYTES} bytes in all"
        raise ValueError(message)
    return tools


ClientTools = Annotated[
    tuple[ClientTool, ...], Field(max_length=MOST_CLIENT_TOOLS), AfterValidator(_distinct_and_small)
]


def client_tools_within_limits(described: Iterable[Any]) -> tuple[ClientTool, ...]:
    """The tools of those that are valid, up to the limits; all others are left out.

    For wires whose clients send what other servers take: `described` are objects of any form.
    """
    found: dict[str, ClientTool] = {}
    left = MOST_SCHEMA_BYTES
    for each in described:
        try:
            tool = ClientTool.model_validate(each)
        except ValidationError:
            continue
        size = tool.schema_bytes
        if tool.name not in found and size <= left and len(found) < MOST_CLIENT_TOOLS:
            found[tool.name] = tool
            left -= size
    return tuple(found.values())


def client_tool_id(name: str) -> str:
    """The id of a client's tool, by which the model calls it."""
    return f"{_PREFIX}{name}"


def is_client_tool(tool_id: str) -> bool:
    """Whether the client executes the tool with this id."""
    return tool_id.startswith(_PREFIX)


def shown_name(tool_id: str) -> str:
    """The name by which clients know a tool: its id, or the client's own name for it."""
    return tool_id.removeprefix(_PREFIX)
