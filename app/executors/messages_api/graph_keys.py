"""The keys of a graph that need the CLI, and that this executor does not support."""

from collections.abc import Iterator

from app.graphs.catalog import KeyProblem
from app.graphs.spec import GraphSpec

PROVIDER = "messages"
"""The first half of the graph ids of this executor."""


def check_graph(spec: GraphSpec) -> Iterator[KeyProblem]:
    """The keys that this executor does not support."""
    for key in ("native_tools", "prompt_preset", "agents"):
        if getattr(spec, key):
            yield KeyProblem(key, f"is only for graphs of claude_agents, not of {PROVIDER}")
