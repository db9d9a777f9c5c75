"""What the SDK calls around the CLI's own tools, and what the operator's hooks get of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

from app.events import ToolCallStart
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.sdk_hooks import HOOK_TIMEOUT_S, SdkHooks
from app.tools.extensions.hooks import RunHooks
from app.tools.extensions.loading import Extensions
from runtally.tools.hooks import Hooks, ToolCall
from runtally.tools.result import ToolResult
from runtally.tools.tool import HookContext
from tests.factories import a_context, a_plan
from tests.unit.executors.claude_agent.an_executor import a_graph
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.gateway.calls import Billing, a_channel


class Heard(Hooks):
    """Records results."""

    def __init__(self) -> None:
        self.results: list[tuple[ToolCall, ToolResult]] = []

    async def after_tool(self, _context: HookContext, call: ToolCall, result: ToolResult) -> None:
        self.results.append((call, result))


async def test_a_result_of_the_clis_own_tools_is_reported_once_to_the_run_that_has_it(tmp_path: Path) -> None:
    plan, heard = a_plan(spec=a_graph(native_tools=("Read",))), Heard()
    bridge = McpBridge(plan)
    cli = FakeCli()
    options = ClaudeAgentOptions(hooks=SdkHooks(bridge).for_sdk(person_s=1), cwd=tmp_path)
    client = cli.client(options)
    read: dict[str, Any] = {"tool_name": "Read", "tool_input": {"file_path": "/workspace/a"}}
    ours: dict[str, Any] = {"tool_name": "mcp__runtally__demo__weather", "tool_input": {}}
    await client.connect()
    try:
        # A CLI that warms up has no run: nothing is allowed, and no hook gets it.
        (denial,) = await cli.hook("PreToolUse", "toolu_0", **read)
        context = replace(a_context(plan), extensions=Extensions(RunHooks([("heard", heard)])))
        bridge.attach_run(context, a_channel(Billing()))
        bridge.calls.on_published(
            ToolCallStart(tool_call_id="toolu_1", tool_name="Read", args={}, parent_tool_call_id="toolu_p")
        )
        assert await cli.hook("PreToolUse", "toolu_1", **read) == [{}]
        assert await cli.hook("PostToolUse", "toolu_1", **read, tool_response={"text": "x"}) == [{}]
        assert await cli.hook("PostToolUseFailure", "toolu_2", **read, error="no file") == [{}]
        # The tool runner reports this one.
        assert await cli.hook("PostToolUse", "toolu_3", **ours, tool_response="sunny") == [{}]
        outside = {**read, "tool_input": {"file_path": "/etc/passwd"}}
        await cli.hook("PreToolUse", "toolu_4", **outside)
    finally:
        await client.disconnect()

    assert denial["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert [(call.tool_call_id, call.parent_tool_call_id, result.code) for call, result in heard.results] == [
        *(("toolu_1", "toolu_p", None), ("toolu_2", None, "failed"), ("toolu_4", None, "policy_denied"))
    ]
    assert [call.arguments["file_path"] for call, _ in heard.results] == ["a", "a", "/etc/passwd"]
    assert [result.markdown for _, result in heard.results] == [
        *('{"text":"x"}', "no file", "Only what is below /workspace can be read or written.")
    ]


def test_a_hook_that_breaks_opens_nothing_and_may_take_as_long_as_the_person_who_decides() -> None:
    matchers = SdkHooks(McpBridge(a_plan())).for_sdk(person_s=100)

    assert list(matchers) == ["PreToolUse", "PostToolUse", "PostToolUseFailure"]
    assert {(each.timeout, each.on_failure) for (each,) in matchers.values()} == {
        (HOOK_TIMEOUT_S + 100, "block")
    }
