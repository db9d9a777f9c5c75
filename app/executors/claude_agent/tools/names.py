"""What a tool is called on either side of the bridge; pure."""

SERVER_NAME = "runtally"
STRUCTURED_OUTPUT = "StructuredOutput"
"""The CLI's own tool for `responseFormat`: its call is the answer, not a tool call."""

AGENT_TOOL = "Agent"
"""The CLI's own tool that gives work to a subagent."""

AGENT_TOOL_AT_START = "Task"
"""What the CLI's start message calls it."""

_PREFIX = f"mcp__{SERVER_NAME}__"


def bridged_name(tool_id: str) -> str:
    """The name the model calls a tool by."""
    return _PREFIX + tool_id


def tool_id_of(name: str) -> str:
    """The tool's own id, from the name the model called it by."""
    return name.removeprefix(_PREFIX)
