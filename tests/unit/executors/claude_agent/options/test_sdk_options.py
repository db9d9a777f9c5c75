"""What decides what an agent may do, and how the CLI is told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from app.executors.claude_agent.options.sdk_options import build_options, cli_tools
from app.executors.claude_agent.sandbox.cli_settings import sandbox_settings
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.sdk_hooks import SdkHooks
from app.executors.port import RunPlan
from app.graphs.spec import AgentSpec
from app.models.registry import ModelOptions
from app.requests.run_request import RunLimits
from tests.factories import a_plan, schemas_of
from tests.unit.executors.claude_agent.an_executor import a_graph
from tests.unit.tools.samples.weather import weather

HELPER = AgentSpec(description="Looks things up.", prompt="Look it up.", tools=("demo__weather",))


def built(plan: RunPlan, *, full: bool = False, **fields: Any) -> ClaudeAgentOptions:
    return build_options(
        plan,
        launcher=Path("/run/launch"),
        system_prompt_file=Path("/run/prompt.md"),
        work=Path("/run/work"),
        server=None,
        hooks=SdkHooks(McpBridge(plan)),
        **{"full": full, **fields},
    )


def with_weather(**fields: Any) -> RunPlan:
    return a_plan(spec=a_graph(tools=("demo__weather",), **fields), tools=(weather,))


def test_nothing_of_the_machine_is_read_and_nothing_is_allowed_but_what_was_asked_for() -> None:
    options = built(with_weather())

    assert (options.tools, options.allowed_tools) == ([], ["mcp__runtally__demo__weather"])
    assert (options.setting_sources, options.settings, options.plugins, options.skills) == ([], None, [], [])
    assert (options.strict_mcp_config, options.mcp_servers) == (True, {})
    assert (options.permission_mode, options.can_use_tool) == ("dontAsk", None)
    assert (options.agents, options.hooks, options.add_dirs) == (None, None, [])


@pytest.mark.parametrize(("with_login", "suffix"), [(False, "[1m]"), (True, "")])
def test_a_login_does_not_ask_for_a_long_context(*, with_login: bool, suffix: str) -> None:
    plan = replace(
        with_weather(agents={"helper": HELPER}),
        model="claude-opus-4-6",
        options=ModelOptions(fallback="claude-sonnet-4-6"),
        agent_models={"helper": "claude-sonnet-4-6"},
    )
    options = built(plan, with_login=with_login)

    assert options.agents is not None
    named = (options.model, options.fallback_model, options.agents["helper"].model)
    assert named == tuple(
        f"{model}{suffix}" for model in ("claude-opus-4-6", "claude-sonnet-4-6", "claude-sonnet-4-6")
    )


def test_the_prompt_is_a_file_and_every_word_of_a_user_is_taken_as_it_is() -> None:
    options = built(a_plan())

    assert options.system_prompt == {"type": "file", "path": "/run/prompt.md"}
    assert (options.verbatim_prompts, options.include_partial_messages) == (True, True)
    assert (options.cli_path, options.cwd) == (Path("/run/launch"), Path("/run/work"))
    assert set(options.extra_args) == {
        *("disable-slash-commands", "replay-user-messages", "bare", "no-session-persistence")
    }


def test_the_full_mode_has_hooks_and_shows_what_subagents_say() -> None:
    options = built(with_weather(agents={"helper": HELPER}), full=True)

    assert options.forward_subagent_text is True
    assert sorted(options.hooks or {}) == ["PostToolUse", "PostToolUseFailure", "PreToolUse"]
    assert "bare" not in options.extra_args
    assert options.extra_args["system-prompt-snapshot"] == "off"


def test_a_subagent_has_its_own_tools_works_in_the_foreground_and_inherits_the_model() -> None:
    options = built(with_weather(agents={"helper": HELPER}), full=True)

    agent = (options.agents or {})["helper"]
    assert (agent.tools, agent.background, agent.model) == (
        ["mcp__runtally__demo__weather"],
        False,
        "inherit",
    )
    assert options.tools == ["Agent"]
    assert options.allowed_tools == ["Agent", "mcp__runtally__demo__weather"]


def test_native_tools_touch_the_workspace_only_and_commands_run_in_the_sandbox() -> None:
    spec = a_graph(native_tools=("Read", "Bash"))
    options = built(a_plan(spec=spec), full=True)

    assert cli_tools(spec) == options.tools == ["Read", "Bash"]
    assert options.allowed_tools == ["Read(//workspace/**)", "Bash"]
    assert options.settings == sandbox_settings()


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        ("disabled", {"type": "disabled"}),
        ("adaptive", {"type": "adaptive"}),
        (2048, {"type": "enabled", "budget_tokens": 2048}),
    ],
)
def test_the_model_thinks_as_the_registry_says(thinking: Any, expected: dict[str, Any]) -> None:
    options = built(a_plan(options=ModelOptions(thinking=thinking, fallback="claude-haiku-5-5")))

    assert (options.thinking, options.fallback_model) == (expected, "claude-haiku-5-5")


def test_limits_and_the_schema_of_the_answer_are_passed_on() -> None:
    schema = {"type": "object", "properties": {}}
    options = built(a_plan(limits=RunLimits.of(max_turns=4), schemas=schemas_of(answer=schema)))

    assert (options.max_turns, options.output_format) == (4, {"type": "json_schema", "schema": schema})
