"""Request + graph -> ClaudeAgentOptions; pure.

Every option that decides what an agent may do is set here explicitly, also where the SDK's
default happens to be the same today.
"""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    CanUseTool,
    CanUseToolShadowedWarning,
    ClaudeAgentOptions,
    PermissionResultAllow,
    PermissionResultDeny,
    ThinkingConfig,
    ToolPermissionContext,
)
from claude_agent_sdk.types import McpSdkServerConfig

from app.executors.claude_agent.sandbox.bubblewrap import sandbox_settings
from app.executors.claude_agent.tools.builtin_tools import rules
from app.executors.claude_agent.tools.hooks import Hooks
from app.executors.claude_agent.tools.names import AGENT_TOOL, SERVER_NAME, bridged_name
from app.executors.port import RunContext
from app.graphs.spec import GraphSpec
from app.models.registry import Thinking
from app.requests import ResponseFormat

# The SDK warns that allowed tools never reach `can_use_tool`. That is the point: it is the second
# lock, for every name that is not allowed.
warnings.filterwarnings("ignore", category=CanUseToolShadowedWarning)

MAX_LINE_BYTES = 64 * 1024 * 1024
"""One line of the CLI's output holds one message; the SDK's default of 1 MiB loses the run."""


def build_options(
    context: RunContext,
    *,
    launcher: Path,
    system_prompt_file: Path,
    work: Path,
    server: McpSdkServerConfig | None,
    hooks: Hooks | None,
    response_format: ResponseFormat | None,
    full: bool,
) -> ClaudeAgentOptions:
    """The options of one run; `launcher` starts the CLI, which works in the directory `work`.

    `full`: in the CLI's full mode.
    """
    spec = context.spec
    agent = [AGENT_TOOL] if spec.agents else []
    names = [*agent, *(bridged_name(tool.id) for tool in context.tools)]
    return ClaudeAgentOptions(
        # A file: arguments are visible to every user of the machine and end at 128 KiB.
        system_prompt={"type": "file", "path": str(system_prompt_file)},
        model=context.model,
        fallback_model=context.options.fallback,
        thinking=_thinking(context.options.thinking),
        effort=context.options.effort,
        tools=native_tools(spec),
        allowed_tools=[*names, *rules(spec.native_tools)],
        mcp_servers={SERVER_NAME: server} if server else {},
        strict_mcp_config=True,
        setting_sources=[],
        settings=sandbox_settings() if "Bash" in spec.native_tools else None,
        skills=[],
        plugins=[],
        permission_mode="dontAsk",
        can_use_tool=only(names),
        agents=_agents(context) or None,
        # Without it a subagent's text would be in no message at all.
        forward_subagent_text=full,
        hooks=hooks.for_sdk(patience_s=context.spec.approval_timeout_s) if full and hooks else None,
        verbatim_prompts=True,
        include_partial_messages=True,
        max_turns=context.limits.max_turns,
        output_format=_output_format(response_format),
        cli_path=launcher,
        cwd=work,
        max_buffer_size=MAX_LINE_BYTES,
        extra_args=_switches(full=full, keeps_session=context.conversation is not None),
    )


def native_tools(spec: GraphSpec) -> list[str]:
    """The CLI's own tools that a graph needs, by the names the model calls them by."""
    return [*([AGENT_TOOL] if spec.agents else []), *spec.native_tools]


def _switches(*, full: bool, keeps_session: bool) -> dict[str, str | None]:
    """Switches of the CLI that the SDK has no option for."""
    switches: dict[str, str | None] = {
        "disable-slash-commands": None,
        # The CLI repeats a user message when it takes it up: then it has taken effect.
        "replay-user-messages": None,
    }
    if full:
        # A conversation that goes on would be given the system prompt it began with.
        switches["system-prompt-snapshot"] = "off"
    else:
        # No reminders, sockets, hooks, nor the built-in Agent and WebSearch tools.
        switches["bare"] = None
    if not keeps_session:
        switches["no-session-persistence"] = None
    return switches


def _agents(context: RunContext) -> dict[str, AgentDefinition]:
    return {
        name: AgentDefinition(
            description=agent.description,
            prompt=agent.prompt,
            tools=[tool if tool in context.spec.native_tools else bridged_name(tool) for tool in agent.tools],
            model=context.agent_models.get(name, "inherit"),
            # In the background it would outlive the turn that gave it work.
            background=False,
        )
        for name, agent in context.spec.agents.items()
    }


def only(allowed: Iterable[str]) -> CanUseTool:
    """A permission callback that knows these tools and denies every other."""
    names = frozenset(allowed)

    async def decide(
        name: str,
        args: dict[str, Any],
        _context: ToolPermissionContext,
    ) -> PermissionResultAllow | PermissionResultDeny:
        if name in names:
            return PermissionResultAllow(updated_input=args)
        return PermissionResultDeny(message="This tool is not available in this run.")

    return decide


def _thinking(wanted: Thinking) -> ThinkingConfig:
    match wanted:
        case "disabled":
            return {"type": "disabled"}
        case "adaptive":
            return {"type": "adaptive"}
        case budget_tokens:
            return {"type": "enabled", "budget_tokens": budget_tokens}


def _output_format(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    return None if wanted is None else {"type": "json_schema", "schema": wanted.schema_}
