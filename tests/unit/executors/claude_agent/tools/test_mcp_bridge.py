"""Our tools as the CLI's MCP client sees them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

from app.events import ToolCallStart
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.names import SERVER_NAME
from app.executors.claude_agent.tools.sdk_hooks import HookCall, SdkHooks
from app.executors.port import RunPlan
from tests.factories import a_context, a_plan
from tests.unit.executors.claude_agent.an_executor import a_graph
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.executors.claude_agent.tools.test_sdk_hooks import nothing_against
from tests.unit.gateway.calls import Billing, a_channel
from tests.unit.tools.samples.weather import weather


@asynccontextmanager
async def connected(bridge: McpBridge) -> AsyncIterator[FakeCli]:
    """A CLI that has this bridge's server."""
    server = bridge.server()
    assert server is not None
    cli = FakeCli()
    client = cli.client(ClaudeAgentOptions(mcp_servers={SERVER_NAME: server}))
    await client.connect()
    try:
        yield cli
    finally:
        await client.disconnect()


def with_weather(**fields: Any) -> RunPlan:
    return a_plan(**{"tools": (weather,), "spec": a_graph(tools=("demo__weather",)), **fields})


def serving(plan: RunPlan, calls: list[tuple[str, str | None]] | None = None) -> McpBridge:
    async def observe(call: HookCall) -> None:
        if calls is not None:
            calls.append((call.name, call.tool_call_id))

    bridge = McpBridge(plan)
    bridge.attach_run(a_context(plan), a_channel(Billing()), SdkHooks([observe], nothing_against, full=False))
    return bridge


async def test_observers_get_each_call_and_whether_it_failed() -> None:
    calls: list[tuple[str, str | None]] = []
    bridge = serving(with_weather(), calls)
    async with connected(bridge) as cli:
        for call_id, args in (("toolu_1", {"city": "Rome"}), ("toolu_2", {"town": "Rome"})):
            bridge.calls.on_published(ToolCallStart(tool_call_id=call_id, tool_name="demo__weather", args={}))
            await cli.call_tool("demo__weather", call_id, **args)

    assert calls == [
        ("PreToolUse", "toolu_1"),
        ("PostToolUse", "toolu_1"),
        ("PreToolUse", "toolu_2"),
        ("PostToolUseFailure", "toolu_2"),
    ]


def test_a_run_without_tools_has_no_server() -> None:
    assert McpBridge(a_plan()).server() is None


def test_a_call_may_take_as_long_as_its_tool_and_the_person_who_approves_it() -> None:
    approving = a_graph(tools=("demo__weather",), approve=("demo__weather",), approval_timeout_s=100)

    assert McpBridge(with_weather()).calls.longest_call_s == weather.timeout_s
    assert McpBridge(with_weather(spec=approving)).calls.longest_call_s == weather.timeout_s + 100
