"""Tool ids -> the names by which the model calls them, and back; pure."""

SERVER_NAME = "runtally"
STRUCTURED_OUTPUT = "StructuredOutput"
"""The CLI's own tool for `responseFormat`: its call is the answer, not a tool call."""

AGENT_TOOL_AT_START = "Task"
"""The name of `AGENT_TOOL` in the CLI's init message."""

_PREFIX = f"mcp__{SERVER_NAME}__"


def bridged_name(tool_id: str) -> str:
    """The name the model calls a tool by."""
    return _PREFIX + tool_id


def tool_id_of(name: str) -> str:
    """The tool's own id, from the name by which the model calls it."""
    return name.removeprefix(_PREFIX)
