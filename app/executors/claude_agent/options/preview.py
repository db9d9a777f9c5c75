"""preview_options: ClaudeAgentOptions -> JSON without secrets, for a preview; pure.

An option is shown only if it is listed in `SHOWN` or `DESCRIBED`: options of a new SDK version stay
hidden until they are listed.
"""

from typing import Any

from claude_agent_sdk import ClaudeAgentOptions
from pydantic.alias_generators import to_camel

from app.executors.claude_agent.sandbox.cli_settings import sandbox_settings

SHOWN = (
    *("model", "fallback_model", "thinking", "max_thinking_tokens", "effort", "betas"),
    *("max_turns", "max_budget_usd", "task_budget", "output_format"),
    *("tools", "allowed_tools", "disallowed_tools", "strict_mcp_config", "skills"),
    *("permission_mode", "permission_prompt_tool_name", "setting_sources"),
    *("verbatim_prompts", "include_partial_messages", "include_hook_events", "forward_subagent_text"),
    *("enable_file_checkpointing", "max_buffer_size", "extra_args"),
    *("continue_conversation", "resume", "session_id", "fork_session"),
    *("resume_session_at", "resume_drops_turn"),
)
"""Shown with their values."""

DESCRIBED = ("system_prompt", "mcp_servers", "can_use_tool", "hooks", "agents", "plugins", "sandbox")
"""Shown by name or type only: their values hold paths, addresses and functions."""

HIDDEN = (
    *("cwd", "cli_path", "add_dirs", "settings", "env", "user", "client_app"),
    *("stderr", "debug_stderr", "session_store", "session_store_flush", "load_timeout_ms"),
)
"""Never shown: paths, environment, storage and logging of this machine."""

PRESET_CHARS = 16_000
"""More than the CLI's own prompt has: 4,900 characters for its newest models, 14,800 for those before."""


def preview_options(options: ClaudeAgentOptions) -> dict[str, Any]:
    """The options by name, in camelCase."""
    values = {name: getattr(options, name) for name in SHOWN} | {
        "system_prompt": _kind(options.system_prompt),
        "mcp_servers": _kinds(options.mcp_servers),
        "can_use_tool": options.can_use_tool is not None,
        "hooks": sorted(options.hooks or {}),
        "agents": sorted(options.agents or {}),
        "plugins": [plugin["type"] for plugin in options.plugins],
        "sandbox": options.sandbox is not None or options.settings == sandbox_settings(),
    }
    return {to_camel(name): value for name, value in values.items()}


def _kind(prompt: Any) -> dict[str, str | int]:
    kind = prompt["type"] if isinstance(prompt, dict) else "text"
    preset = {"preset": prompt["preset"], "maxCharacters": PRESET_CHARS} if kind == "preset" else {}
    return {"type": kind, **preset}


def _kinds(servers: Any) -> dict[str, dict[str, str]]:
    # The SDK also takes a path or a JSON string, which could hold a key.
    named = servers if isinstance(servers, dict) else {}
    return {name: {"type": server.get("type", "stdio"), "name": name} for name, server in named.items()}
