import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from app.executors.claude_agent.tools.names import tool_id_of
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import CLAUDE, MESSAGES, without_cli
from tests.e2e.mcp_program import a_server
from tests.e2e.stories import (
    WorldOf,
    a_request,
    arguments_of,
    cli_processes,
    contents_below,
    shown_by,
    until,
)
from tests.graph_files import graph_files
from tests.integration.hostile_mcp import HostileServer, serving
from tests.integration.strange_tools import NAMES, TOOLS, UNUSABLE, USABLE_NAMES

LIBRARIAN = "claude_agents:librarian"
SEARCH = "mcp__runtally__library__search"
PROGRAM = str(Path(__file__).with_name("mcp_program.py"))
ROOT = str(Path(__file__).parents[2])
TOKEN = "sk-library-nobody-may-see"
NOBODY_LISTENS = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
ANOTHER_PROGRAM = {
    "command": [sys.executable, "-m", "tests.integration.hostile_program", "has one tool"],
    "env": {"PYTHONPATH": ROOT},
}


def graphs(directory: Path, server: dict[str, Any], **head: Any) -> dict[str, Any]:
    spec = {"description": "Looks things up.", "mcp_servers": {"library": server}, **head}
    graphs = graph_files(directory, librarian=f"---\n{yaml.safe_dump(spec)}---\nLook it up.\n")
    return {**graphs, "RUNTALLY_MCP_SECRETS": json.dumps({"LIBRARY_TOKEN": TOKEN})}


def program(**more: Any) -> dict[str, Any]:
    env = {"TOKEN": "${LIBRARY_TOKEN}", "PYTHONPATH": ROOT}
    command = {"command": sys.executable, "args": [PROGRAM]}
    return {**command, "env": env, "tools": {"search": "read_only"}, **more}


def asks(name: str, **arguments: Any) -> list[Reply]:
    return [Reply([ToolUse(name, arguments)]), Reply([Text("There it is.")])]


async def test_a_program_is_asked_has_its_secret_and_is_gone_with_the_run(
    world_of: WorldOf, tmp_path: Path
) -> None:
    replies = in_turn(*asks("mcp__runtally__library__environment", q="x"))
    server = program(tools={"environment": "read_only"}, show_results=True)
    world = await world_of(replies, **graphs(tmp_path, server))

    events = await world.run(a_request("go", graphId=LIBRARIAN))

    first, second = world.simulator.requests
    assert [tool_id_of(name) for name in first.tool_names] == ["library__environment"]
    called, answered = [event.data for event in events if event.type.startswith("tool_call")]
    assert called["toolName"] == "library__environment"
    found = answered["result"]["text"]
    assert found in str(second.tool_results)
    assert f"TOKEN={TOKEN}" in found
    assert "ANTHROPIC" not in found
    assert "DATABASE_URL" not in found
    await until(lambda: not programs())


@without_cli
async def test_only_the_tools_that_are_named_exist(world_of: WorldOf, tmp_path: Path) -> None:
    script = in_turn(*asks("mcp__runtally__library__delete_everything", q="x"))
    async with a_library() as library:
        world = await world_of(script, **graphs(tmp_path, library.server()))

        events = await world.run(a_request("go", graphId=LIBRARIAN))

    (result,) = world.simulator.requests[-1].tool_results
    assert result["is_error"]
    assert [e.data["isError"] for e in events if e.type == "tool_call_result"] == [True]
    assert library.asked == []


@without_cli
async def test_a_failure_is_told_to_the_model_alone(world_of: WorldOf, tmp_path: Path) -> None:
    """So are arguments that do not match the server's schema."""
    server = {"tools": {"fails": "state_change", "search": "read_only"}, "show_results": True}
    calls = [ToolUse(SEARCH, {"q": 1}), ToolUse("mcp__runtally__library__fails", {"q": "x"})]
    async with a_library() as library:
        replies = in_turn(Reply([*calls]), Reply([Text("I see.")]))
        world = await world_of(replies, **graphs(tmp_path, library.server(**server)))

        events = await world.run(a_request("go", graphId=LIBRARIAN))

    told = str(world.simulator.requests[-1].tool_results)
    assert 'q: 1 is not of type "string"' in told
    assert "the index is being rebuilt" in told
    results = [event.data for event in events if event.type == "tool_call_result"]
    assert [(each["result"], each["isError"]) for each in results] == [
        ({"error": "invalid_args"}, True),
        ({"error": "failed"}, True),
    ]


async def test_the_agents_cli_never_has_the_secret(world_of: WorldOf, tmp_path: Path) -> None:
    hold = Hold(index=2)
    async with a_library() as library:
        script = in_turn(Reply([Text("one")], hold=hold))
        world = await world_of(script, **graphs(tmp_path, library.server()))
        run_id = await world.start(a_request("go", graphId=LIBRARIAN))
        await hold.reached.wait()

        seen = shown_by(cli_processes())
        files = contents_below(tmp_path / "data" / "runs")
        hold.until.set()
        await world.ended(run_id)

    assert "ANTHROPIC_BASE_URL" in seen
    assert TOKEN not in seen
    assert files
    assert not any(TOKEN.encode() in content for content in files)


@without_cli
async def test_a_server_over_http(world_of: WorldOf, tmp_path: Path) -> None:
    async with a_library() as library:
        world = await world_of(in_turn(*asks(SEARCH, q="Ada")), **graphs(tmp_path, library.server()))

        events = await world.run(a_request("find Ada", graphId=LIBRARIAN))

    assert library.asked == [("search", {"q": "Ada"})]
    # What it answered is for the model, unless the graph shows it.
    assert "found Ada" in str(world.simulator.requests[1].tool_results)
    (result,) = [event.data for event in events if event.type == "tool_call_result"]
    assert (result["result"], result["isError"]) == ({}, False)
    assert set(library.keys) == {f"Bearer {TOKEN}"}
    assert events[-1].data["finishReason"] == "stop"


async def test_tools_that_no_model_takes_are_left_out_and_the_others_work(
    world_of: WorldOf, tmp_path: Path
) -> None:
    library = HostileServer(lambda _: {"tools": TOOLS}, lambda _: {"content": []})
    async with serving(library):
        server = {"type": "http", "url": library.url, "tools": dict.fromkeys(NAMES, "read_only")}
        script = [*asks("mcp__runtally__library__empty"), *asks("library__empty")]
        world = await world_of(in_turn(*script), **graphs(tmp_path, server))

        runs = [
            await world.run(a_request("go", graphId=graph)) for graph in (LIBRARIAN, "messages:librarian")
        ]

    for events in runs:
        assert events[-1].data["finishReason"] == "stop"
        (warning,) = [event.data for event in events if event.type == "warning"]
        left_out = {f"library__{name}" for name in (*UNUSABLE, "too_long")}
        assert (warning["code"], set(warning["names"])) == ("tools_left_out", left_out)
    assert library.methods.count("tools/call") == 2
    for request in world.simulator.requests:
        tools = {tool_id_of(tool["name"]): tool["input_schema"] for tool in request.body["tools"]}
        # The CLI refuses a whole list, and leaves tools out without a word.
        assert set(tools) == {f"library__{name}" for name in USABLE_NAMES}
        for schema in tools.values():
            assert schema["type"] == "object"
            assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(schema)


@pytest.mark.parametrize(
    ("server", "agent", "optional"),
    [
        (NOBODY_LISTENS, CLAUDE, False),
        (NOBODY_LISTENS, CLAUDE, True),
        ({"type": "stdio", "command": ["/no/such/program"]}, MESSAGES, False),
        ({"type": "stdio", "command": ["/bin/false"]}, MESSAGES, False),
        ({**ANOTHER_PROGRAM, "tools": {"no_such_tool": "read_only"}}, MESSAGES, True),
    ],
    ids=["nobody listens", "nobody, optional", "no program", "a program that ends", "without the tool"],
)
async def test_a_server_that_is_away_ends_the_run_or_is_done_without(
    world_of: WorldOf, tmp_path: Path, server: dict[str, Any], *, optional: bool
) -> None:
    server = {"tools": {"search": "read_only"}, **server, "optional": optional}
    settings = graphs(tmp_path, server, tools=["core__calculate"])
    world = await world_of(in_turn(Reply([Text("Without it, then.")])), **settings)

    events = await world.run(a_request("go", graphId=LIBRARIAN))

    if optional:
        assert [tool_id_of(name) for name in world.simulator.requests[0].tool_names] == ["core__calculate"]
        assert events[-1].data["finishReason"] == "stop"
    else:
        assert [event.data.get("error") for event in events[-2:]] == ["tool_server_unavailable", None]
        assert world.simulator.requests == []


@without_cli
async def test_a_run_that_asks_for_none_of_its_tools_needs_no_server(
    world_of: WorldOf, tmp_path: Path
) -> None:
    server = {**NOBODY_LISTENS, "tools": {"search": "read_only"}}
    world = await world_of(in_turn(Reply([Text("Fine.")])), **graphs(tmp_path, server))

    events = await world.run(a_request("go", graphId=LIBRARIAN, toolIds=[]))

    assert events[-1].data["finishReason"] == "stop"


class Library:
    """An MCP server over HTTP, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str] = []

    def server(self, **more: Any) -> dict[str, Any]:
        """Its entry in the head of a graph."""
        headers = {"Authorization": "Bearer ${LIBRARY_TOKEN}"}
        return {
            "type": "http",
            "url": self.url,
            "headers": headers,
            "tools": {"search": "read_only"},
            **more,
        }


@asynccontextmanager
async def a_library() -> AsyncIterator[Library]:
    library = Library()
    app = a_server(library.asked).streamable_http_app(stateless_http=True, json_response=True)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        library.keys += [value.decode() for name, value in scope["headers"] if name == b"authorization"]
        await app(scope, receive, send)

    async with app.router.lifespan_context(app), serve_on_loopback(answer) as url:
        library.url = f"{url}/mcp"
        yield library


def programs() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [child for child in children if child.is_running() and PROGRAM in arguments_of(child)]
