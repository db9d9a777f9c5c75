"""The keys of a graph that only the CLI supports, and what they need of it."""

from collections.abc import Iterator
from typing import Literal, get_args

from app.executors.port import RunPlan
from app.graphs.catalog import KeyProblem
from app.graphs.spec import GraphSpec

PROVIDER = "claude_agents"
"""The first half of the graph ids of this executor."""

NativeTool = Literal["Read", "Write", "Edit", "Glob", "Grep", "Bash"]
"""The CLI's own tools that work without a user at a terminal."""

_NATIVE_TOOLS = get_args(NativeTool)


def check_graph(spec: GraphSpec) -> Iterator[KeyProblem]:
    """The values of CLI-only keys that this executor does not support."""
    *others, last = map(repr, _NATIVE_TOOLS)
    for index, tool in enumerate(spec.native_tools):
        if tool not in _NATIVE_TOOLS:
            yield KeyProblem(f"native_tools.{index}", f"must be {', '.join(others)} or {last}")
    if spec.on_budget == "pause" and spec.native_tools:
        yield KeyProblem(
            "on_budget", "must be end in a graph with native_tools, whose runs cannot wait so long"
        )


def needs_full_mode(spec: GraphSpec) -> bool:
    """Whether the graph needs the CLI's full mode, for subagents, native tools or questions."""
    return bool(spec.agents or spec.native_tools or spec.questions)


def may_be_parked(plan: RunPlan) -> bool:
    """Whether the run may wait for a person, and another process could go on with it.

    None has the files of its workspace, and the CLI's own tools are executed by the CLI alone.
    """
    pauses = plan.spec.on_budget == "pause" and plan.limits.max_budget_usd is not None
    waits = pauses or plan.spec.asks or plan.spec.questions or bool(plan.client_tools)
    return waits and not plan.spec.native_tools


def keeps_transcript(plan: RunPlan) -> bool:
    """Whether the CLI writes down what happens: for the next turn, or to go on in another process."""
    return plan.conversation is not None or may_be_parked(plan)
