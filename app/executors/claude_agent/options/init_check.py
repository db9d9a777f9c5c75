"""Init check: compares what the CLI reports in its init message with what the run configured."""

from collections.abc import Mapping
from typing import Any

BUILT_IN_PLUGINS = frozenset(
    {"cc-plugin-agents-md", "cc-plugin-plugin-authoring", "cc-plugin-privacy"},
)
"""This CLI version always lists them; they bring no tool and no server."""


class UnexpectedCapabilities(Exception):
    """The CLI offers something else than the run configured."""


def check_init(init: Mapping[str, Any], *, tools: set[str], servers: set[str]) -> None:
    """Raise `UnexpectedCapabilities` unless tools, MCP servers and plugins are exactly as configured.

    Slash commands, skills and agents that the CLI discovers are tolerated: without the tools that
    call them they cannot run.
    """
    found = {
        "tools": (set(init["tools"]), tools),
        "mcp_servers": ({server["name"] for server in init["mcp_servers"]}, servers),
        "plugins": ({plugin["name"] for plugin in init["plugins"]} - BUILT_IN_PLUGINS, set()),
    }
    wrong = {name: sorted(got ^ expected) for name, (got, expected) in found.items() if got != expected}
    if wrong:
        raise UnexpectedCapabilities(f"the CLI's init message differs from the configuration: {wrong}")
