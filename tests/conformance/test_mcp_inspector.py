"""The command line of the MCP inspector, unmodified."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from app.simulator.script import ApiRequest, Reply, Text, ToolUse, in_turn
from tests.conformance.newer_node import run_package
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import KEY, World, WorldOf

pytestmark = pytest.mark.long

_PROGRAM: Final = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
TOOL: Final = f"{MESSAGES}__assistant"


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said: {request.last_text}")])


async def inspected(world: World, home: Path, *arguments: str) -> dict[str, Any]:
    """What it prints for a method."""
    target = ["--cli", f"{world.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {KEY}"]
    printed = await run_package(_PROGRAM, *target, *arguments, variables={"HOME": str(home)})
    found: dict[str, Any] = json.loads(printed)
    return found


async def test_it_lists_the_graphs_and_calls_one(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(echo, agent=MESSAGES)

    tools = await inspected(world, tmp_path, "--method", "tools/list", "--strict")
    call = ["--method", "tools/call", "--tool-name", TOOL, "--tool-arg", "message=Hello"]
    result = await inspected(world, tmp_path, *call)

    assert TOOL in [each["name"] for each in tools["tools"]]
    assert [each["text"] for each in result["content"]] == ["You said: Hello"]
    (run,) = (await world.http.get("/v1/runs")).json()["items"]
    assert run["status"] == "succeeded"
    assert len(await world.receipts(run["runId"])) == 1


async def test_it_gets_the_answer_after_an_approval(world_of: WorldOf, tmp_path: Path) -> None:
    """It shows no forms, so it gets a link."""
    send = Reply([ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})])
    script = in_turn(send, Reply([Text("Sent.")]))
    world = await world_of(script, agent=MESSAGES, **office_settings(tmp_path))
    call = ["--method", "tools/call", "--tool-name", f"{MESSAGES}__mailer", "--tool-arg", "message=write"]

    linked = await inspected(world, tmp_path, *call)
    (waiting,) = (await world.http.get("/v1/approvals")).json()["items"]
    run_id = waiting["runId"]
    await world.decide(run_id, waiting, decision="allow")
    result = await inspected(world, tmp_path, *call, f"conversation=run:{run_id}")

    assert f"{world.url}/approvals?runId={run_id} " in linked["content"][0]["text"]
    assert [each["text"] for each in result["content"]] == ["Sent."]
    assert office().sent == [("a@example.org", "hi")]
