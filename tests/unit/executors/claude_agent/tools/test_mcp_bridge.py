"""Our tools as the CLI's MCP client sees them."""

from typing import Any

from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.port import RunPlan
from tests.factories import a_plan
from tests.unit.executors.claude_agent.an_executor import a_graph
from tests.unit.tools.samples.weather import weather


def with_weather(**fields: Any) -> RunPlan:
    return a_plan(**{"tools": (weather,), "spec": a_graph(tools=("demo__weather",)), **fields})


def test_a_run_without_tools_has_no_server() -> None:
    assert McpBridge(a_plan()).server() is None


def test_a_call_may_take_as_long_as_its_tool_and_the_person_who_approves_it() -> None:
    approving = a_graph(tools=("demo__weather",), approve=("demo__weather",), approval_timeout_s=100)

    assert McpBridge(with_weather()).calls.longest_call_s == weather.timeout_s
    assert McpBridge(with_weather(spec=approving)).calls.longest_call_s == weather.timeout_s + 100
