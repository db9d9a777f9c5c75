"""build_options: run and graph -> ClaudeAgentOptions; pure.

Every option that decides what an agent may do is set here explicitly, also where the SDK's
default is the same today.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    ThinkingConfig,
)
from claude_agent_sdk.types import McpSdkServerConfig, SystemPromptFile, SystemPromptPreset

from app.executors.claude_agent.graph_keys import keeps_transcript
from app.executors.claude_agent.options.long_context import cli_model
from app.executors.claude_agent.sandbox.cli_settings import sandbox_settings
from app.executors.claude_agent.tools.builtin_tools import permission_rules
from app.executors.claude_agent.tools.names import SERVER_NAME, bridged_name
from app.executors.claude_agent.tools.sdk_hooks import SdkHooks
from app.executors.port import RunPlan
from app.executors.tools.questions import ASK_USER_QUESTION, without_questions
from app.graphs.spec import AGENT_TOOL, GraphSpec
from app.models.registry import Thinking

MAX_LINE_BYTES = 64 * 1024 * 1024
"""One line of the CLI's output is one message; a line over the SDK's default of 1 MiB fails the run."""


def build_options(
    plan: RunPlan,
    *,
    launcher: Path,
    system_prompt_file: Path,
    work: Path,
    server: McpSdkServerConfig | None,
    hooks: SdkHooks | None,
    full: bool,
    with_login: bool = False,
) -> ClaudeAgentOptions:
    """The options of one run; `launcher` is the program to start, `work` its working directory.

    `full`: use the CLI's full mode. `with_login`: the CLI uses the machine's own login.
    """
    spec = plan.spec
    # A subscription may have to pay extra for a long context.
    name_of = str if with_login else cli_model
    agent = [AGENT_TOOL] if spec.agents else []
    names = [*agent, *(bridged_name(tool.id) for tool in without_questions(plan))]
    return ClaudeAgentOptions(
        system_prompt=_system_prompt(spec, system_prompt_file),
        model=name_of(plan.model),
        fallback_model=plan.options.fallback and name_of(plan.options.fallback),
        thinking=_thinking(plan.options.thinking),
        effort=plan.options.effort,
        task_budget=None if (budget := plan.options.task_budget) is None else {"total": budget},
        tools=cli_tools(spec),
        allowed_tools=[*names, *permission_rules(spec.native_tools)],
        mcp_servers={SERVER_NAME: server} if server else {},
        strict_mcp_config=True,
        setting_sources=[],
        settings=sandbox_settings() if "Bash" in spec.native_tools else None,
        skills=[],
        plugins=[],
        permission_mode="dontAsk",
        # In this mode it would never be called. The CLI offers its tool for questions only to a client that
        # could be; a hook answers them.
        can_use_tool=None,
        permission_prompt_tool_name="stdio" if spec.questions else None,
        agents=_agents(plan, name_of) or None,
        # Without it no message shows a subagent's text.
        forward_subagent_text=full,
        hooks=hooks.for_sdk(person_s=_longest_wait_s(spec)) if full and hooks else None,
        verbatim_prompts=True,
        include_partial_messages=True,
        max_turns=plan.limits.max_turns,
        output_format=_output_format(plan),
        cli_path=launcher,
        cwd=work,
        max_buffer_size=MAX_LINE_BYTES,
        extra_args={
            **_switches(full=full, keeps_transcript=keeps_transcript(plan)),
            # The SDK would append a text, as an argument.
            **({"append-system-prompt-file": str(system_prompt_file)} if spec.prompt_preset else {}),
        },
    )


def cli_tools(spec: GraphSpec) -> list[str]:
    """The names of the CLI's own tools that a graph uses, as the model calls them."""
    asking = [ASK_USER_QUESTION] if spec.questions else []
    return [*([AGENT_TOOL] if spec.agents else []), *spec.native_tools, *asking]


def _system_prompt(spec: GraphSpec, file: Path) -> SystemPromptFile | SystemPromptPreset:
    if spec.prompt_preset is not None:
        return {"type": "preset", "preset": spec.prompt_preset}
    # A file: arguments are visible to every user of the machine, and limited to 128 KiB.
    return {"type": "file", "path": str(file)}


def _longest_wait_s(spec: GraphSpec) -> float:
    """How long a hook may wait for a person."""
    return max(spec.approval_timeout_s, spec.question_timeout_s if spec.questions else 0)


def _switches(*, full: bool, keeps_transcript: bool) -> dict[str, str | None]:
    """Command-line switches for which the SDK has no option."""
    switches: dict[str, str | None] = {
        "disable-slash-commands": None,
        # The CLI repeats a user message when it starts to process it.
        "replay-user-messages": None,
    }
    if full:
        # Otherwise a resumed conversation would use the system prompt it began with.
        switches["system-prompt-snapshot"] = "off"
    else:
        # No reminders, sockets, hooks, nor the built-in Agent and WebSearch tools.
        switches["bare"] = None
    if not keeps_transcript:
        switches["no-session-persistence"] = None
    return switches


def _agents(plan: RunPlan, name_of: Callable[[str], str]) -> dict[str, AgentDefinition]:
    return {
        name: AgentDefinition(
            description=agent.description,
            prompt=agent.prompt,
            tools=[tool if tool in plan.spec.native_tools else bridged_name(tool) for tool in agent.tools],
            model=name_of(plan.agent_models.get(name, "inherit")),
            maxTurns=agent.max_turns,
            effort=agent.effort,
            # In the background it would outlive the turn that started it.
            background=False,
        )
        for name, agent in plan.spec.agents.items()
    }


def _thinking(mode: Thinking) -> ThinkingConfig:
    match mode:
        case "disabled":
            return {"type": "disabled"}
        case "adaptive":
            return {"type": "adaptive"}
        case budget_tokens:
            return {"type": "enabled", "budget_tokens": budget_tokens}


def _output_format(plan: RunPlan) -> dict[str, Any] | None:
    answer = plan.schemas.answer
    return None if answer is None else {"type": "json_schema", "schema": answer.schema}
