"""The real Claude Code with this server as an MCP server: graphs are its tools."""

import json
from pathlib import Path

import pytest

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import MESSAGES
from tests.e2e.office import office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import KEY, WorldOf
from tests.e2e.test_claude_code_uses_this_server import claude
from tests.e2e.the_bill import bill, wire
from tests.integration.external_calls import billed

TOOL = f"mcp__runtally__{MESSAGES}__assistant"
SECRET = "the heron flies at dawn"
MAILER = f"mcp__runtally__{MESSAGES}__mailer"


def with_tool(url: str, tool: str) -> list[str]:
    """Its options that add this server, and allow one tool."""
    server = {"type": "http", "url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}
    config = json.dumps({"mcpServers": {"runtally": server}})
    return ["--strict-mcp-config", "--mcp-config", config, "--tools", "", "--allowedTools", tool]


async def test_it_calls_a_graph_and_both_are_on_the_bill(world_of: WorldOf, tmp_path: Path) -> None:
    def respond(request: ApiRequest) -> Reply:
        if TOOL not in request.tool_names:
            return Reply([Text(f"{request.last_text}? {SECRET}.")])
        if request.tool_results:
            return Reply([Text("It says: " + str(request.tool_results[0]["content"]))])
        return Reply([ToolUse(TOOL, {"message": "When does it fly"})])

    world = await world_of(respond)

    status, shown = await claude(
        world.url, tmp_path, *with_tool(world.url, TOOL), "--", "Ask it when it flies."
    )
    runs = (await world.http.get("/v1/runs")).json()["items"]
    session, called = sorted(runs, key=lambda run: run["graphId"] == f"{MESSAGES}:assistant")
    own = await billed(world, called["runId"], 1)
    receipts = own + await billed(world, session["runId"], len(world.simulator.sent) - 1)

    assert (status, "When does it fly?" in shown, SECRET in shown) == (0, True, True)
    assert called["final"]["content"] == f"When does it fly? {SECRET}."
    assert bill(receipts) == wire(world.simulator.sent)


@pytest.mark.parametrize("approved", [True, False])
async def test_its_user_decides_about_calls_of_a_graph(
    world_of: WorldOf, tmp_path: Path, *, approved: bool
) -> None:
    """By a hook, because nothing is shown without a terminal: then the form is dismissed, which denies."""

    def respond(request: ApiRequest) -> Reply:
        results = [str(each["content"]) for each in request.tool_results]
        if MAILER in request.tool_names:
            return Reply([Text(f"It says: {results}") if results else ToolUse(MAILER, {"message": "write"})])
        if results:
            return Reply([Text(f"Result: {results[0]}")])
        (send,) = [name for name in request.tool_names if name.endswith("send_mail")]
        return Reply([ToolUse(send, {"to": "a@example.org", "text": "hi"})])

    world = await world_of(respond, **office_settings(tmp_path))
    decision = {"hookEventName": "Elicitation", "action": "accept", "content": {"approved": True}}
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"hookSpecificOutput": decision}))
    hook = {"hooks": [{"type": "command", "command": f"cat {answer}"}]}
    settings = json.dumps({"hooks": {"Elicitation": [hook]} if approved else {}})

    status, shown = await claude(
        world.url, tmp_path, *with_tool(world.url, MAILER), "--settings", settings, "--", "Write."
    )

    assert status == 0, shown
    assert office().sent == ([("a@example.org", "hi")] if approved else []), shown
    assert ("denied this call" in shown) != approved
    (run,) = (await world.http.get("/v1/runs", params={"graphId": f"{MESSAGES}:mailer"})).json()["items"]
    assert run["status"] == "succeeded"
