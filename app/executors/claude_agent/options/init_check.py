"""What the CLI says at its start that it can do, held against what the run asked for."""

from collections.abc import Mapping
from typing import Any

BUILT_IN_PLUGINS = frozenset(
    {"cc-plugin-agents-md", "cc-plugin-plugin-authoring", "cc-plugin-privacy"},
)
"""What this CLI version always lists; they bring no tool and no server."""


class UnexpectedCapabilities(Exception):
    """The CLI offers something else than the run asked for."""


def check_init(init: Mapping[str, Any], *, tools: set[str], servers: set[str]) -> None:
    """Raise `UnexpectedCapabilities` unless tools, MCP servers and plugins are exactly as asked.

    Slash commands, skills and agents that the CLI discovers are tolerated: without tools to call
    them by they cannot run.
    """
    found = {
        "tools": (set(init["tools"]), tools),
        "mcp_servers": ({server["name"] for server in init["mcp_servers"]}, servers),
        "plugins": ({plugin["name"] for plugin in init["plugins"]} - BUILT_IN_PLUGINS, set()),
    }
    wrong = {name: sorted(got ^ asked) for name, (got, asked) in found.items() if got != asked}
    if wrong:
        message = f"the CLI's start message differs from what was asked: {wrong}"
        raise UnexpectedCapabilities(message)
