"""ClaudeAgentOptions -> JSON for a preview: what decides what an agent may do, and no secret; pure.

An option is shown only where it stands in `SHOWN`: one that a new SDK version brings stays hidden
until somebody has decided.
"""

from typing import Any

from claude_agent_sdk import ClaudeAgentOptions
from pydantic.alias_generators import to_camel

from app.executors.claude_agent.sandbox.bubblewrap import sandbox_settings

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
"""As they are."""

DESCRIBED = ("system_prompt", "mcp_servers", "can_use_tool", "hooks", "agents", "plugins", "sandbox")
"""By what can be said of them: the rest is paths, addresses and functions."""

HIDDEN = (
    *("cwd", "cli_path", "add_dirs", "settings", "env", "user", "client_app"),
    *("stderr", "debug_stderr", "session_store", "session_store_flush", "load_timeout_ms"),
)
"""The machine's own: paths, environment, where things are kept and logged."""


def shown(options: ClaudeAgentOptions) -> dict[str, Any]:
    """The options by their names, in camelCase."""
    found = {name: getattr(options, name) for name in SHOWN} | {
        "system_prompt": _kind(options.system_prompt),
        "mcp_servers": _kinds(options.mcp_servers),
        "can_use_tool": options.can_use_tool is not None,
        "hooks": sorted(options.hooks or {}),
        "agents": sorted(options.agents or {}),
        "plugins": [plugin["type"] for plugin in options.plugins],
        "sandbox": options.sandbox is not None or options.settings == sandbox_settings(),
    }
    return {to_camel(name): value for name, value in found.items()}


def _kind(prompt: Any) -> dict[str, str]:
    return {"type": prompt["type"] if isinstance(prompt, dict) else "text"}


def _kinds(servers: Any) -> dict[str, dict[str, str]]:
    # A path or a string would name a file or hold a server's key.
    named = servers if isinstance(servers, dict) else {}
    return {name: {"type": server.get("type", "stdio"), "name": name} for name, server in named.items()}
