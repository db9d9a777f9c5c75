"""The real Claude Code with this server as an MCP server: graphs are its tools."""

import json
from pathlib import Path

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import KEY, WorldOf
from tests.e2e.test_claude_code_uses_this_server import claude
from tests.e2e.the_bill import bill, wire
from tests.integration.external_calls import billed

TOOL = f"mcp__runtally__{MESSAGES}__assistant"
SECRET = "the heron flies at dawn"


async def test_it_calls_a_graph_and_both_are_on_the_bill(world_of: WorldOf, tmp_path: Path) -> None:
    def respond(request: ApiRequest) -> Reply:
        if TOOL not in request.tool_names:
            return Reply([Text(f"{request.last_text}? {SECRET}.")])
        if request.tool_results:
            return Reply([Text("It says: " + str(request.tool_results[0]["content"]))])
        return Reply([ToolUse(TOOL, {"message": "When does it fly"})])

    world = await world_of(respond)
    server = {"type": "http", "url": f"{world.url}/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}
    config = json.dumps({"mcpServers": {"runtally": server}})

    status, shown = await claude(
        world.url,
        tmp_path,
        *("--strict-mcp-config", "--mcp-config", config, "--tools", "", "--allowedTools", TOOL),
        *("--", "Ask it when it flies."),
    )
    runs = (await world.http.get("/v1/runs")).json()["items"]
    session, called = sorted(runs, key=lambda run: run["graphId"] == f"{MESSAGES}:assistant")
    own = await billed(world, called["runId"], 1)
    receipts = own + await billed(world, session["runId"], len(world.simulator.sent) - 1)

    assert (status, "When does it fly?" in shown, SECRET in shown) == (0, True, True)
    assert called["final"]["content"] == f"When does it fly? {SECRET}."
    assert bill(receipts) == wire(world.simulator.sent)
