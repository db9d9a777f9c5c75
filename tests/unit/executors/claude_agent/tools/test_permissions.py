"""Which of its own tools the CLI may run, and with what arguments."""

from typing import Any

import pytest

from app.executors.claude_agent.tools.builtin_tools import CliTool
from app.executors.claude_agent.tools.permissions import ToolPermissions
from app.graphs.spec import AgentSpec
from app.tools.policy import ToolCallDenied
from runtally.tools.result import ToolResult
from tests.unit.executors.claude_agent.an_executor import a_graph

GRAPH = a_graph(
    native_tools=("Read", "Bash"), agents={"helper": AgentSpec(description="d", prompt="p", tools=("Read",))}
)


class Reviewer:
    """Gives the configured decisions, and records what it reviewed."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.reviewed: list[tuple[str, object, str]] = []

    async def __call__(self, tool: CliTool, args: object, call_id: str) -> object:
        self.reviewed.append((tool.id, args, call_id))
        if isinstance(self.answer, Exception):
            raise self.answer
        return args if self.answer is None else self.answer


async def nobody_is_asked(_args: object, _call_id: str) -> ToolResult:
    raise AssertionError


async def unreported(_tool: CliTool, _args: object, _call_id: str, _result: ToolResult) -> None:
    """A run without hooks."""


async def decided(
    name: str, args: dict[str, Any], reviewer: Reviewer | None = None, reason: str | None = None
) -> tuple[str | None, Any]:
    """The decision, and the reason or the arguments."""
    permissions = ToolPermissions(GRAPH, lambda: reason, reviewer or Reviewer(), nobody_is_asked, unreported)
    output: Any = await permissions.decide(name, args, "toolu_1")
    specific = output.get("hookSpecificOutput", {})
    return specific.get("permissionDecision"), specific.get("permissionDecisionReason") or specific.get(
        "updatedInput"
    )


async def test_a_tool_of_ours_is_left_to_the_runner_and_one_of_nobodys_to_the_rules() -> None:
    for name in ("mcp__runtally__demo__weather", "Write", "WebFetch"):
        assert await decided(name, {}, reason="time is up") == (None, None)


@pytest.mark.parametrize("name", ["Read", "Bash", "Agent"])
async def test_nothing_runs_after_the_deadline_or_the_budget(name: str) -> None:
    reviewer = Reviewer()

    assert await decided(name, {"subagent_type": "helper"}, reviewer, "time is up") == ("deny", "time is up")
    assert reviewer.reviewed == []


async def test_a_call_in_order_is_left_to_the_rules_of_the_cli() -> None:
    reviewer = Reviewer()

    assert await decided("Read", {"file_path": "/workspace/a.txt"}, reviewer) == (None, None)
    assert reviewer.reviewed == [("Read", {"file_path": "a.txt"}, "toolu_1")]


async def test_a_call_out_of_bounds_is_denied_without_asking_anybody() -> None:
    reviewer = Reviewer()

    decision, reason = await decided("Read", {"file_path": "/etc/passwd"}, reviewer)

    assert (decision, reviewer.reviewed) == ("deny", [])
    assert reason


async def test_a_person_may_deny_a_call_or_change_it_but_not_lead_it_out() -> None:
    args = {"file_path": "/workspace/a.txt"}

    assert await decided("Read", args, Reviewer(ToolCallDenied("no"))) == ("deny", "no")
    assert await decided("Read", args, Reviewer({"file_path": "b.txt"})) == ("allow", {"file_path": "b.txt"})
    assert (await decided("Read", args, Reviewer({"file_path": "/etc/passwd"})))[0] == "deny"


async def test_a_subagent_is_started_as_it_was_reviewed() -> None:
    reviewer = Reviewer({"subagent_type": "helper", "prompt": "less"})
    other = Reviewer({"subagent_type": "general-purpose"})
    args = {"subagent_type": "helper", "prompt": "more"}

    assert await decided("Agent", args, reviewer) == (
        "allow",
        {"subagent_type": "helper", "prompt": "less", "run_in_background": False},
    )
    assert reviewer.reviewed == [("Agent", args, "toolu_1")]
    assert await decided("Agent", args, Reviewer(ToolCallDenied("no"))) == ("deny", "no")
    assert (await decided("Agent", args, other))[0] == "deny"


async def test_a_subagent_of_the_graph_works_in_the_foreground_and_no_other_works() -> None:
    allowed = await decided("Agent", {"subagent_type": "helper", "run_in_background": True})
    denied = await decided("Agent", {"subagent_type": "general-purpose"})

    assert allowed == ("allow", {"subagent_type": "helper", "run_in_background": False})
    assert denied == ("deny", "There is no such subagent in this run; there are: helper.")
