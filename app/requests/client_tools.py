"""ClientTool: a tool that comes with a request and that the client executes; limits of such tools."""

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, to_json

CLIENT_TOOL_NAME = r"^[a-zA-Z0-9_-]{1,64}$"
MOST_CLIENT_TOOLS = 64
MOST_DESCRIPTION_CHARS = 4_096
MOST_SCHEMA_BYTES = 65_536
"""Of the schemas of a request's tools together."""

MOST_DESCRIBED = 4 * MOST_CLIENT_TOOLS
"""Of those that a client of a foreign wire describes, so many are looked at."""

_MOST_READ_BYTES: Final = 4 * MOST_SCHEMA_BYTES

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
        """The size of its schema as JSON; of a larger one than all may have, one byte more than that."""
        if is_longer(self.input_schema, than=MOST_SCHEMA_BYTES):
            return MOST_SCHEMA_BYTES + 1
        try:
            return len(to_json(self.input_schema))
        except (PydanticSerializationError, ValueError):
            return MOST_SCHEMA_BYTES + 1

    @property
    def size(self) -> int:
        return len(self.name) + len(self.description) + self.schema_bytes


def _distinct_and_small(tools: tuple[ClientTool, ...]) -> tuple[ClientTool, ...]:
    if len({tool.name for tool in tools}) < len(tools):
        raise ValueError("contains a name twice")
    left = MOST_SCHEMA_BYTES
    for tool in tools:
        left -= tool.schema_bytes
        if left < 0:
            raise ValueError(f"contains schemas of more than {MOST_SCHEMA_BYTES} bytes in all")
    return tools


def is_longer(value: Any, *, than: int) -> bool:
    """Whether a JSON value certainly is longer as JSON; looks at no more of it than so many values."""
    left, rest = than, [value]
    while rest and left >= 0:
        each = rest.pop()
        left -= 1 + (len(each) if isinstance(each, str | list | dict) else 0)
        if left >= 0 and isinstance(each, list | dict):
            rest.extend(each.values() if isinstance(each, dict) else each)
    return left < 0


ClientTools = Annotated[
    tuple[ClientTool, ...], Field(max_length=MOST_CLIENT_TOOLS), AfterValidator(_distinct_and_small)
]


def client_tools_within_limits(described: Iterable[Any]) -> tuple[ClientTool, ...]:
    """The tools of those that are valid, up to the limits; all others are left out.

    For wires whose clients send what other servers take: `described` are objects of any form. No more of
    them are read than a client can have a use for.
    """
    found: dict[str, ClientTool] = {}
    left, unread = MOST_SCHEMA_BYTES, _MOST_READ_BYTES
    for each in islice(described, MOST_DESCRIBED):
        if len(found) == MOST_CLIENT_TOOLS or unread < 0:
            break
        try:
            tool = ClientTool.model_validate(each)
        except ValidationError:
            continue
        size = tool.schema_bytes
        unread -= size
        if tool.name not in found and size <= left:
            found[tool.name] = tool
            left -= size
    return tuple(found.values())


def client_tool_id(name: str) -> str:
    return f"{_PREFIX}{name}"


def is_client_tool(tool_id: str) -> bool:
    return tool_id.startswith(_PREFIX)


def shown_name(tool_id: str) -> str:
    """The name by which clients know a tool: its id, or the client's own name for it."""
    return tool_id.removeprefix(_PREFIX)
