"""Agents and MCP servers of other programs become graphs, and what could not is named."""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from starlette.responses import JSONResponse

from app.bootstrap.catalogs import load_graphs
from app.cli.errors import explained
from app.cli.imports.files import Wanted, import_file
from app.cli.terminal import Terminal
from app.doctor.mcp_servers import check_mcp_servers
from app.graphs.spec import GraphSpec
from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from app.platform.settings import Settings
from app.tools.catalog import ToolCatalog
from app.tools.mcp.servers import McpConnector
from tests.clients import mcp_over_http
from tests.library_words import shown_words

SECRET = "s3cret-of-the-library"
GRAPH = "---\ndescription: Looks things up.\n---\nLook it up.\n"
PROGRAM = """
import json, os, sys
if os.environ.get("API_KEY") != "s3cret-of-the-library" or sys.argv[1:] != ["--quiet"]:
    sys.exit(3)
HINTS = {
    "search": {"readOnlyHint": True},
    "tidy": {"destructiveHint": False},
    "publish": {"destructiveHint": False, "openWorldHint": True},
    "burn": {},
    "burn!": {},
    "日本": {},
}
TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}, "annotations": hints}
    for name, hints in HINTS.items()
]
ABOUT = {"capabilities": {"tools": {}}, "serverInfo": {"name": "library", "version": "1"}}
RESULTS = {"initialize": {"protocolVersion": "2025-06-18", **ABOUT}, "tools/list": {"tools": TOOLS}}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer = {"error": {"code": -32601, "message": "no such method"}}
        if request["method"] in RESULTS:
            answer = {"result": RESULTS[request["method"]]}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


async def imported(directory: Path, file: str, graph: str | None = None, **variables: str) -> str:
    """What the command prints, its error included."""
    (directory / "graphs").mkdir(exist_ok=True)
    settings = Settings.load(_env_file=None, RUNTALLY_GRAPHS_DIR=directory / "graphs", **variables)
    printed = io.StringIO()
    console = Terminal(file=printed, width=200)
    with contextlib.redirect_stderr(printed), contextlib.suppress(typer.Exit), explained():
        await import_file(settings, console, directory / file, Wanted(graph))
    assert shown_words(printed.getvalue()) == set()
    return printed.getvalue()


def written(directory: Path, servers: Any, key: str = "mcpServers") -> str:
    (directory / ".mcp.json").write_text(json.dumps({key: servers}), encoding="utf-8")
    return ".mcp.json"


def graph_with(directory: Path, text: str = GRAPH) -> Path:
    (directory / "graphs").mkdir(exist_ok=True)
    path = directory / "graphs" / "librarian.md"
    path.write_text(text, encoding="utf-8")
    return path


def loaded(directory: Path, **secrets: str) -> tuple[Settings, GraphSpec]:
    settings = Settings.load(
        _env_file=None, RUNTALLY_GRAPHS_DIR=directory / "graphs", RUNTALLY_MCP_SECRETS=json.dumps(secrets)
    )
    return settings, load_graphs(settings, ToolCatalog.load([])).get("claude_agents:librarian")


async def test_servers_are_asked_for_their_tools_and_added(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(PROGRAM, encoding="utf-8")
    path = graph_with(
        tmp_path, GRAPH.replace("\nL", "\nmcp_servers:\n  is no key here.\nL").replace("\n", "\r\n")
    )
    program = {"command": sys.executable, "args": [str(tmp_path / "library.py"), "--quiet"]}
    servers = {
        "My-Library": {**program, "env": {"API_KEY": SECRET}, "cwd": ".", "disabled": False},
        "second": {**program, "type": "stdio", "env": {"API_KEY": "${LIBRARY_KEY:-" + SECRET + "}"}},
    }

    shown = await imported(tmp_path, written(tmp_path, servers), "librarian")

    text = path.read_bytes().decode()
    assert SECRET not in text + shown
    assert text.count("\n") == text.count("\r\n")
    settings, graph = loaded(tmp_path, MY_LIBRARY_API_KEY=SECRET, LIBRARY_KEY=SECRET)
    effects = {"search": "read_only", "tidy": "state_change"}
    effects |= dict.fromkeys(["publish", "burn"], "external_side_effect")
    assert [server.tools for server in graph.mcp_servers.values()] == [effects, effects]
    assert "is no key here" in graph.system_prompt
    for line in (
        "my_library: search read_only, tidy state_change",
        "Set in RUNTALLY_MCP_SECRETS, with the values that the imported file has: LIBRARY_KEY, MY_",
        "Left out of My-Library: its cwd, tool burn!, which gets no id of its own, tool 日本, which",
    ):
        assert line in shown, shown
    async with SchemaChecker(workers=1, check_s=30) as schemas:
        connector = McpConnector(settings.mcp_secrets, schemas)
        checks = await check_mcp_servers([graph], connector, has_token_key=False)
    assert [check.status for check in checks] == ["ok", "ok"], checks


OWN = """\
mcp_servers:

    # Ours
    old: {url: 'https://x', tools: {t: read_only}}
"""


async def test_a_server_over_http_keeps_its_token_out_of_the_graph(tmp_path: Path) -> None:
    path = graph_with(tmp_path, GRAPH.replace("---\nL", f"{OWN}---\nL"))
    server = mcp_over_http.a_server().streamable_http_app()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        allowed = headers.get(b"authorization") == f"Bearer {SECRET}".encode()
        await (server if allowed else JSONResponse({}, 401))(scope, receive, send)

    async with server.router.lifespan_context(server), serve_on_loopback(guarded) as url:
        servers = {
            "fast": {"url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
            "from vs code": {
                "type": "http",
                "url": f"{url}/mcp",
                "headers": {"Authorization": "Bearer ${input:t-k}"},
            },
            "refused": {"type": "streamable-http", "url": f"{url}/mcp"},
            "old": {"url": f"{url}/mcp"},
        }
        shown = await imported(
            tmp_path,
            written(tmp_path, servers, "servers"),
            "messages:librarian",
            RUNTALLY_MCP_SECRETS=json.dumps({"T_K": SECRET}),
        )

    assert SECRET not in path.read_text() + shown
    _, graph = loaded(tmp_path, FAST_AUTHORIZATION=SECRET, T_K=SECRET)
    assert list(graph.mcp_servers) == ["fast", "from_vs_code", "old"]
    assert "Left out of refused: it answers with an error: it may need a login, or other headers" in shown
    assert "Left out of old: the graph has another server old" in shown
    assert "has: FAST_AUTHORIZATION\n" in shown


PROGRAM_WITH = {"command": "npx", "args": ["-y", "x"]}
LEFT_OUT: list[tuple[Any, str]] = [
    ({"command": "/no/such/program"}, "it cannot be started: No such file"),
    ({"command": "/bin/false"}, "what answers is no MCP server, or it refuses or ends the connection"),
    ({"url": "http://127.0.0.1:9/mcp"}, "what answers is no MCP server, or it refuses"),
    ({**PROGRAM_WITH, "disabled": True}, "it is disabled there"),
    ({"command": "npx", "args": ["x", "--api-key", SECRET]}, "seem to have a secret"),
    ({"command": "npx", "args": ["x", f"--token={SECRET}"]}, "seem to have a secret"),
    ({"command": "npx", "args": ["mcp-remote", "--header", f"Authorization: Bearer {SECRET}"]}, "a secret"),
    ({"command": "npx", "args": ["pg", f"postgresql://u:{SECRET}@db/x"]}, "seem to have a secret"),
    ({"url": f"https://x/mcp?api_key={SECRET}"}, "seem to have a secret"),
    ({"command": "npx", "args": ["${workspaceFolder}"]}, "variables are filled in only in env and headers"),
    ({**PROGRAM_WITH, "env": {"A": "${NOWHERE_SET}"}}, "NOWHERE_SET is set neither in RUNTALLY_MCP_SECRETS"),
    ({"type": "ws", "url": "ws://x"}, "has an unknown type; known are 'http', 'sse', 'stdio'"),
    ({"args": ["x"]}, "must have a url, or a command"),
    ({"command": "npx", "args": "x y"}, "args must be a list"),
    ([], "it is no object"),
]


async def test_a_server_that_cannot_be_added_is_named_with_the_reason(tmp_path: Path) -> None:
    path = graph_with(tmp_path)
    servers = {f"s{number}": server for number, (server, _) in enumerate(LEFT_OUT)}

    shown = await imported(tmp_path, written(tmp_path, servers), "librarian")

    lines = dict(line.removeprefix("Left out of ").split(": ", 1) for line in shown.splitlines())
    for number, (server, reason) in enumerate(LEFT_OUT):
        assert reason in lines[f"s{number}"], (server, shown)
    assert "no server of it was added" in shown
    assert SECRET not in shown
    assert path.read_text() == GRAPH


AGENT = """\
---
name: code-reviewer
description: Use when: code was written. <example>\\nuser: "hi"</example>
tools: Read, Grep, Bash(git diff *), WebFetch, mcp__github__get_issue
model: sonnet
color: red
maxTurns: 5
---

You review code.
"""


async def test_an_agent_of_claude_code_becomes_a_graph(tmp_path: Path) -> None:
    (tmp_path / "agent.md").write_text(AGENT, encoding="utf-8")

    shown = await imported(tmp_path, "agent.md")
    again = await imported(tmp_path, "agent.md")

    settings = Settings.load(_env_file=None, RUNTALLY_GRAPHS_DIR=tmp_path / "graphs")
    graph = load_graphs(settings, ToolCatalog.load([])).get("claude_agents:code-reviewer")
    assert graph.description.startswith("Use when: code was written. <example>")
    assert (graph.native_tools, graph.model, graph.max_turns) == (("Read", "Grep"), "sonnet", 5)
    assert graph.system_prompt == "You review code."
    left_out = [line.removeprefix("Left out: ") for line in shown.splitlines()[1:]]
    tools = ["Bash(git diff *)", "WebFetch", "mcp__github__get_issue"]
    assert left_out == [*(f"the tool {tool}" for tool in tools), "the key color"]
    assert "is there already, and nothing is overwritten" in again


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.md", "You review code.", "has no front matter"),
        ("a.md", "---\nname: a\n---\nHi", "needs a description"),
        ("a.md", "---\ndescription: x\nname: ../a\n---\nHi", "is no name of a file"),
        ("a.md", "---\ndescription: x\nname: a b\n---\nHi", "a b.md: the name of a graph, that of its file,"),
        ("a.md", "---\ndescription: [\n---\nHi", "front matter: line"),
        ("a.toml", "", "must be a .md file"),
        ("a.json", "{", "line 1, column 2: is not valid JSON"),
        ("a.json", "{}", "has neither MCP servers nor messages of a conversation"),
        ("a.json", "[]", "the conversation ends with an answer: go on with --prompt"),
        ("a.json", '[{"mapping": {}, "title": "x"}, {"mapping": {}}]', "--title, such as 'x', '2'"),
        ("b.json", "", "cannot be read: No such file"),
    ],
)
async def test_what_cannot_be_imported_is_explained(tmp_path: Path, name: str, text: str, words: str) -> None:
    graph_with(tmp_path)
    (tmp_path / name.replace("b.", "a.")).write_text(text, encoding="utf-8")

    shown = await imported(tmp_path, name, "librarian")

    assert words in shown
    assert shown.count("\n") == 1
    assert [path.name for path in (tmp_path / "graphs").iterdir()] == ["librarian.md"]


@pytest.mark.parametrize(
    ("graph", "text", "words"),
    [
        ("nobody", GRAPH, "There is no graph"),
        ("librarian", GRAPH.replace("---\nL", "mcp_servers: {}\n---\nL"), "in lines of its own"),
        ("librarian", "Look it up.", "has no front matter"),
    ],
)
async def test_a_graph_that_cannot_be_changed_is_named(
    tmp_path: Path, graph: str, text: str, words: str
) -> None:
    (tmp_path / "library.py").write_text(PROGRAM, encoding="utf-8")
    path = graph_with(tmp_path, text)
    server = {"command": sys.executable, "args": [str(tmp_path / "library.py"), "--quiet"]}

    shown = await imported(tmp_path, written(tmp_path, {"a": {**server, "env": {"API_KEY": SECRET}}}), graph)

    assert words in shown
    assert path.read_text() == text
