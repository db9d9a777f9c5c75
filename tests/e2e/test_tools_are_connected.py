"""`runtally connect`: the key that it makes opens the door that it names, and no other."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli.connections.tools import ToolName
from app.simulator.script import in_turn
from tests.e2e.stories import World, WorldOf
from tests.e2e.test_the_commands import command
from tests.integration.statements import scalar
from tests.patience import PATIENCE_S


async def connected(world: World, directory: Path, *arguments: str) -> Any:
    url = str(world.services.settings.database_url)
    return await command(
        directory,
        *("connect", *arguments, "--account", "acme", "--url", f"{world.url}/"),
        DATABASE_URL=url,
        HOME=str(directory),
    )


def door_of(name: ToolName, printed: str) -> tuple[str, str]:
    """Where the tool calls, and its key."""
    if name is ToolName.OPEN_WEBUI:
        url, key = (line.partition("=")[2] for line in printed.splitlines())
        return f"{url}/models", key
    settings = json.loads(printed)
    match name:
        case ToolName.CLAUDE_CODE:
            return f"{settings['env']['ANTHROPIC_BASE_URL']}/v1/models", settings["env"][
                "ANTHROPIC_AUTH_TOKEN"
            ]
        case ToolName.N8N:
            return f"{settings[0]['data']['url']}/models", settings[0]["data"]["apiKey"]
        case ToolName.CURSOR:
            server = settings["mcpServers"]["runtally"]
            return server["url"], server["headers"]["Authorization"].removeprefix("Bearer ")
        case _:
            server = settings["mcpServers"]["runtally"]
            return server["args"][2], server["env"]["AUTHORIZATION"].removeprefix("Bearer ")


@pytest.mark.parametrize("name", ToolName)
async def test_the_printed_configuration_works(world_of: WorldOf, tmp_path: Path, name: ToolName) -> None:
    world = await world_of(in_turn())

    done = await connected(world, tmp_path, name)
    url, key = door_of(name, done.stdout)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S) as client:
        if url.endswith("/mcp"):
            listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            listed = await client.post(
                url, json=listing, headers={"Accept": "application/json, text/event-stream"}
            )
        else:
            listed = await client.get(url)
        others = await client.get(f"{world.url}/v1/keys")

    assert done.exit_code == 0, done.output
    assert (listed.status_code, others.status_code) == (200, 403), listed.text
    assert key not in done.stderr


async def test_claude_code_sends_its_telemetry_if_it_is_asked_for(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn())

    done = await connected(world, tmp_path, "claude-code", "--telemetry")
    refused = await connected(world, tmp_path, "cursor", "--telemetry")
    variables = json.loads(done.stdout)["env"]
    name, _, key = variables["OTEL_EXPORTER_OTLP_HEADERS"].partition("=")
    url = f"{variables['OTEL_EXPORTER_OTLP_ENDPOINT']}/v1/logs"
    headers = {name: key, "content-type": "application/json"}
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        taken = await client.post(url, headers=headers, content=b"{}")

    assert taken.status_code == 200, taken.text
    assert refused.exit_code == 2
    assert "--telemetry" in refused.stderr


async def test_a_file_that_cannot_be_merged_costs_no_key(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn())
    keys = "SELECT count(*) FROM api_keys"
    before = await scalar(world.services.database, keys)
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text("{")

    refused = await connected(world, tmp_path, "cursor", "--write")
    after = await scalar(world.services.database, keys)
    (tmp_path / ".cursor" / "mcp.json").unlink()
    written = await connected(world, tmp_path, "cursor", "--write")

    assert (refused.exit_code, after) == (1, before)
    assert "mcp.json is not JSON" in refused.stderr.replace("\n", " ")
    assert (written.exit_code, written.stdout) == (0, "")
    assert "runtally" in json.loads((tmp_path / ".cursor" / "mcp.json").read_text())["mcpServers"]
