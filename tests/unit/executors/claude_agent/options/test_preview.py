import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    ToolPermissionContext,
)
from claude_agent_sdk.types import McpHttpServerConfig, SandboxSettings, SdkPluginConfig

from app.executors.claude_agent.options.preview import DESCRIBED, HIDDEN, SHOWN, preview_options

SECRET = "/secret/place"


async def allow(_name: str, _args: dict[str, Any], _context: ToolPermissionContext) -> PermissionResultAllow:
    return PermissionResultAllow()


def test_of_every_option_somebody_has_decided_whether_it_is_shown() -> None:
    decided = [*SHOWN, *DESCRIBED, *HIDDEN]

    assert sorted(decided) == sorted(field.name for field in fields(ClaudeAgentOptions))


def test_no_option_shows_a_path_an_address_a_key_or_the_environment() -> None:
    server = McpHttpServerConfig(type="http", url=f"http://{SECRET}", headers={"x-api-key": SECRET})
    options = ClaudeAgentOptions(
        model="claude-sonnet-4-6",
        system_prompt={"type": "file", "path": SECRET},
        mcp_servers={"theirs": server},
        cwd=SECRET,
        cli_path=SECRET,
        add_dirs=[Path(SECRET)],
        settings=SECRET,
        env={"KEY": SECRET},
        user=SECRET,
        plugins=[SdkPluginConfig(type="local", path=SECRET)],
        sandbox=SandboxSettings(enabled=True, excludedCommands=[SECRET]),
        agents={"helper": AgentDefinition(description=SECRET, prompt=SECRET)},
        hooks={"PreToolUse": [HookMatcher(matcher=SECRET)]},
        can_use_tool=allow,
    )

    found = preview_options(options)

    assert SECRET not in json.dumps(found)
    assert _some(found, "model", "systemPrompt", "mcpServers", "plugins", "sandbox", "agents", "hooks") == {
        "model": "claude-sonnet-4-6",
        "systemPrompt": {"type": "file"},
        "mcpServers": {"theirs": {"type": "http", "name": "theirs"}},
        "plugins": ["local"],
        "sandbox": True,
        "agents": ["helper"],
        "hooks": ["PreToolUse"],
    }
    assert found["canUseTool"] is True


def _some(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: found[name] for name in names}
