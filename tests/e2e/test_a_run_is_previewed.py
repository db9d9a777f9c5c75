"""A preview says what a run then does: held against the agent's process and what the model is asked."""

import re
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from app.simulator.script import Hold, Reply, Text, in_turn
from tests.e2e.stories import (
    ANALYST,
    ASSISTANT,
    KEY,
    PROVIDER_KEY,
    World,
    WorldOf,
    a_request,
    cli_processes,
)

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PIXEL = {"type": "image", "mediaType": "image/png", "data": PNG}
PATHS = ("--system-prompt-file",)
"""Arguments whose value is a path of this machine."""


async def _preview(world: World, body: dict[str, Any]) -> dict[str, Any]:
    response = await world.http.post("/v1/runs/preview", json=body)
    assert response.status_code == 200, response.text
    shown: dict[str, Any] = response.json()
    return shown


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter.group().lower()}", name)


def _arguments_of(sdk_options: dict[str, Any]) -> list[str]:
    """The arguments the SDK would start a CLI with, had it only what a preview shows."""
    options = {_snake(name): value for name, value in sdk_options.items()}
    assert options.pop("can_use_tool") is False
    assert options.pop("network") == []
    options["system_prompt"]["path"] = "path"
    options["hooks"] = options["hooks"] or None
    options["agents"] = options["agents"] or None
    options["sandbox"] = options["sandbox"] or None
    made = ClaudeAgentOptions(**options, cli_path="claude")
    return _comparable(SubprocessCLITransport(prompt="", options=made)._build_command())


def _comparable(command: list[str]) -> list[str]:
    _, *arguments = command
    for name in PATHS:
        arguments[arguments.index(name) + 1] = "path"
    return arguments


@pytest.mark.parametrize(
    "body",
    [
        a_request(
            toolIds=[],
            model="triage",
            limits={"maxTurns": 2, "timeoutS": 300},
            responseFormat={"type": "json_schema", "schema": SCHEMA},
        ),
        a_request(graphId=ANALYST, model="claude-opus-4-5"),
        a_request(
            model="fast",
            limits={"maxBudgetUsd": "0.25", "maxTotalTokens": 9000},
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "hello"},
                {"role": "user", "content": [{"type": "text", "text": "what is this?"}, PIXEL]},
            ],
        ),
    ],
    ids=["a role and an object, no tools", "thinking", "effort, fallback and a conversation"],
)
async def test_a_run_does_what_its_preview_said(
    world_of: WorldOf, tmp_path: Path, body: dict[str, Any]
) -> None:
    models = tmp_path / "models.yaml"
    models.write_text(
        "{aliases: {fast: claude-opus-5-5}, models: [{id: claude-opus-5-5, effort: low, fallback: haiku}]}"
    )
    hold = Hold(index=2)
    world = await world_of(in_turn(Reply([Text("hi there")], hold=hold)), RUNTALLY_MODELS_FILE=models)

    preview = await _preview(world, body)
    run_id = await world.start(body)
    await hold.reached.wait()
    (cli,) = cli_processes()
    started = _comparable(cli.cmdline())
    (asked,) = world.simulator.requests
    hold.until.set()

    assert _arguments_of(preview["sdkOptions"]) == started
    assert preview["model"] == (await world.http.get(f"/v1/runs/{run_id}")).json()["model"]
    assert preview["model"] == asked.body["model"]
    assert preview["modelOptions"]["maxOutputTokens"] == asked.body["max_tokens"]
    assert asked.system.endswith(preview["systemPrompt"])
    assert _blocks(asked.messages[-1]["content"]) == preview["prompt"]
    bridged = {f"mcp__runtally__{tool['id']}" for tool in preview["tools"]}
    assert set(asked.tool_names) - {"StructuredOutput"} == bridged


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Content as blocks, without the marks by which the CLI has it cached."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks]


async def test_a_preview_shows_what_there_is_to_know_and_starts_nothing(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(in_turn())
    account = await world.account_id()
    await world.services.ledger.change_mode(account, "prepaid")

    preview = await _preview(world, a_request(model="claude-haiku-4-5", limits={"timeoutS": 9}))

    for secret in (PROVIDER_KEY, KEY, str(tmp_path), "127.0.0.1", "http:", "/bin", "/home", "/tmp", "env"):  # noqa: S108
        assert secret not in str(preview), secret
    options = preview.pop("sdkOptions")
    assert preview.pop("systemPrompt").startswith("You are a helpful assistant.")
    assert preview == {
        "graphId": ASSISTANT,
        "model": "claude-haiku-4-5",
        "modelOptions": {
            "thinking": "disabled",
            "effort": None,
            "maxOutputTokens": 32_000,
            "fallback": None,
            "contextWindow": 200_000,
            "taskBudget": None,
        },
        "tools": [{"id": "core__get_current_time", "effect": "read_only"}],
        "skills": {},
        "rules": [],
        "forecast": None,
        "limits": {"timeoutS": 9, "maxTurns": 8, "maxBudgetUsd": "0.5000000000", "maxTotalTokens": None},
        "timeoutS": 9,
        "webTools": [],
        "prompt": [{"type": "text", "text": "hello"}],
    }
    assert (options["permissionMode"], options["tools"]) == ("dontAsk", [])
    assert options["allowedTools"] == ["mcp__runtally__core__get_current_time"]
    assert options["mcpServers"] == {"runtally": {"type": "sdk", "name": "runtally"}}
    assert (options["canUseTool"], options["settingSources"]) == (False, [])
    assert (await world.http.get("/v1/runs")).json()["items"] == []
    assert (await world.http.get("/v1/balance")).json()["reserved"] == 0
    assert (world.simulator.requests, cli_processes()) == ([], [])
