from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from app.executors.claude_agent.graph_keys import check_graph, needs_full_mode
from app.executors.messages_api.graph_keys import check_graph as check_messages_graph
from app.graphs.catalog import SHIPPED_GRAPHS, GraphCatalog
from app.graphs.file import GraphDefinitionError
from app.graphs.rules.checking import RuledTool
from app.graphs.spec import GraphSpec
from app.requests.run_request import RunLimits
from app.tools.catalog import ToolCatalog
from app.tools.mcp.spec import StdioServer
from runtally.tools.tool import Effect

CHECKS = {"claude_agents": check_graph}
HEAD = "description: Does things."
FULL = """\
description: Does things.
provider: claude_agents
model: sonnet
tools: [demo__a, demo__b]
max_turns: 8
max_budget_usd: "0.50"
timeout_s: 120
thinking_budget_tokens: 2048
show_thinking: true"""


def load(directory: Path, head: str, *, prompt: str = "You help.", name: str = "planner.md") -> GraphSpec:
    (directory / name).write_text(f"---\n{head}\n---\n{prompt}\n", encoding="utf-8")
    tools = {"demo__a", "demo__b"}
    catalog = GraphCatalog.load([directory], checks=CHECKS, known_tools=tools, describe=described)
    return catalog.get(f"claude_agents:{Path(name).stem}")


def fault(directory: Path, head: str) -> str:
    with pytest.raises(GraphDefinitionError) as caught:
        load(directory, head)
    return str(caught.value)


def test_a_graph_contains_every_key_of_its_file(tmp_path: Path) -> None:
    spec = load(tmp_path, FULL)
    assert (spec.id, spec.name, spec.provider) == ("claude_agents:planner", "planner", "claude_agents")
    assert (spec.description, spec.model, spec.tools) == ("Does things.", "sonnet", ("demo__a", "demo__b"))
    assert (spec.thinking_budget_tokens, spec.show_thinking) == (2048, True)
    assert spec.system_prompt == "You help."
    assert spec.limits == RunLimits.of(timeout_s=120, max_turns=8, max_budget_usd=Decimal("0.50"))


def test_a_description_and_a_prompt_are_enough(tmp_path: Path) -> None:
    spec = load(tmp_path, HEAD)
    assert (spec.model, spec.tools, spec.limits) == (None, (), RunLimits())
    assert (spec.thinking_budget_tokens, spec.show_thinking) == (None, False)


def test_a_line_of_dashes_in_the_prompt_belongs_to_the_prompt(tmp_path: Path) -> None:
    assert load(tmp_path, HEAD, prompt="One\n\n---\n\nTwo").system_prompt == "One\n\n---\n\nTwo"


@pytest.mark.parametrize(
    ("head", "key"),
    [
        ("model: sonnet", "description"),
        (f"{HEAD}\nname: other", "name"),
        (f"{HEAD}\nsystem_prompt: other", "system_prompt"),
        (f"{HEAD}\nprovider: messages", "provider"),
        (f"{HEAD}\ntools: {{a: b}}", "tools"),
        (f"{HEAD}\ntools: [demo__c]", "tools: there is no tool 'demo__c'"),
        (f"{HEAD}\nmax_turns: true", "max_turns"),
        (f"{HEAD}\nmax_budget_usd: 0.5", "max_budget_usd: must be a decimal in quotes"),
        (f'{HEAD}\nmax_budget_usd: "cheap"', "max_budget_usd"),
        (f"{HEAD}\ntimeout_s: .inf", "timeout_s"),
        (f"{HEAD}\nthinking_budget_tokens: 1023", "thinking_budget_tokens"),
        ('description: " "', "description"),
        (f"{HEAD}\ntools: [demo__a, demo__a]", "tools: contains a tool twice"),
        (f"{HEAD}\n1: one", "1"),
    ],
)
def test_a_wrong_key_is_named_with_its_file(tmp_path: Path, head: str, key: str) -> None:
    text = fault(tmp_path, head)
    assert "planner.md" in text
    assert key in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("planner.md", f"---\n{HEAD}\n---\n  \n".encode(), r"planner\.md: has no text after"),
        ("my planner.md", f"---\n{HEAD}\n---\nHi\n".encode(), r"my planner\.md: .*rename the file"),
        ("notes.md", b"Just text.", r"notes\.md: has no front matter"),
        ("planner.md", f"---\n{HEAD}\nHi".encode(), r"planner\.md: front matter: has no second line ---"),
        ("planner.md", b"---\ndescription: \xff\n---\nHi", r"planner\.md: .*line 2: is not UTF-8"),
    ],
    ids=["no prompt", "no name of a graph", "no front matter", "no end of it", "no UTF-8"],
)
def test_a_file_that_is_no_graph_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GraphDefinitionError, match=problem):
        GraphCatalog.load([tmp_path], checks=CHECKS, known_tools=())


def test_graphs_of_every_directory_are_listed_by_id(tmp_path: Path) -> None:
    for name in ("second", "first"):
        (tmp_path / name).mkdir()
        load(tmp_path / name, HEAD, name=f"{name}.md")
    catalog = GraphCatalog.load([tmp_path / "second", tmp_path / "first"], checks=CHECKS, known_tools=())
    assert [graph.id for graph in catalog.all()] == ["claude_agents:first", "claude_agents:second"]


def test_the_same_graph_in_two_directories_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        load(tmp_path / name, HEAD)
    with pytest.raises(GraphDefinitionError, match=r"planner\.md: .*claude_agents:planner"):
        GraphCatalog.load([tmp_path / "one", tmp_path / "two"], checks=CHECKS, known_tools=())


def test_only_markdown_files_are_graphs(tmp_path: Path) -> None:
    (tmp_path / "planner.txt").write_text("not a graph", encoding="utf-8")
    assert GraphCatalog.load([tmp_path], checks=CHECKS, known_tools=()).all() == []


def test_a_readme_is_no_graph(tmp_path: Path) -> None:
    for name in ("README.md", "readme.md"):
        (tmp_path / name).write_text("# Graphs\n", encoding="utf-8")
    assert GraphCatalog.load([tmp_path], checks=CHECKS, known_tools=()).all() == []


def test_tools_may_be_written_with_commas(tmp_path: Path) -> None:
    assert load(tmp_path, f"{HEAD}\ntools: demo__a, demo__b").tools == ("demo__a", "demo__b")


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ({"command": "npx", "args": ["-y", "x"]}, ("npx", "-y", "x")),
        ({"command": ["npx", "-y"], "args": ["x"]}, ("npx", "-y", "x")),
        ({"type": "stdio", "command": ["npx"]}, ("npx",)),
        ({"url": "https://x"}, "http"),
        ({"type": "streamable-http", "url": "https://x"}, "http"),
        ({"type": "sse", "url": "https://x"}, "sse"),
    ],
)
def test_servers_are_taken_as_other_programs_write_them(
    tmp_path: Path, server: dict[str, object], found: object
) -> None:
    head = yaml.safe_dump({"description": "x", "mcp_servers": {"a": {**server, "tools": {"t": "read_only"}}}})

    spec = load(tmp_path, head).mcp_servers["a"]

    assert (spec.argv if isinstance(spec, StdioServer) else spec.type) == found


SERVER = "command: x, tools: {search: read_only}"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("tools: [Read]", "there is no tool 'Read'; tools of the CLI belong under native_tools (line 3"),
        (
            f"tools: [lib__search]\nmcp_servers: {{lib: {{{SERVER}}}}}",
            "mcp_servers: 'lib__search' is a tool of an MCP server; tools must not list it again (line 4",
        ),
        (f"tools: [lib__b]\nmcp_servers: {{lib: {{{SERVER}}}}}", "are listed under mcp_servers.lib.tools"),
        ("tools: [mcp__lib__b]", "are listed under mcp_servers.lib.tools"),
        (f"mcp_servers: {{My-Lib: {{{SERVER}}}}}", "mcp_servers.My-Lib: the name of a server has up to 32"),
        (f"mcp_servers: {{My-Lib: {{{SERVER}}}}}", "write my_lib (line 3"),
        ("mcp_servers: {lib: {command: x}}", "mcp_servers.lib: tools must name each tool that may be used"),
        ("mcp_servers: {lib: {command: x, tools: [a]}}", "`runtally mcp import` asks the server"),
        ("mcp_servers: {lib: {tools: {a: read_only}}}", "mcp_servers.lib: must have a url, or a command"),
        ("mcp_servers: {lib: {type: ws, url: x}}", "has an unknown type; known are 'http', 'sse', 'stdio'"),
        ("mcp_servers: {lib: {command: x, tools: {a: safe}}}", "tools.a: must be 'read_only', "),
        ("mcp_servers: {lib: {command: x, args: [1], tools: {a: read_only}}}", "args.0: must be a string"),
        ("client_tools: yes please", "client_tools: must be true or false or an object (line 3, column 1)"),
        (
            "agents: {a: {description: x, prompt: x, background: true}}",
            "agents.a.background: must be false: the call that starts a subagent lasts until it has ended (",
        ),
        ("agents: {A b: {description: x, prompt: x}}", "agents.A b: the name of an agent has up to 64"),
    ],
)
def test_what_to_write_instead_is_named(tmp_path: Path, keys: str, problem: str) -> None:
    assert problem in fault(tmp_path, f"{HEAD}\n{keys}")


def test_the_shipped_graphs_load_with_the_shipped_tools() -> None:
    catalog = GraphCatalog.load([SHIPPED_GRAPHS], checks=CHECKS, known_tools=ToolCatalog.load([]).ids())
    assistant = catalog.get("claude_agents:assistant")
    assert assistant.tools == ("core__get_current_time",)
    assert assistant.limits == RunLimits.of(timeout_s=120, max_turns=8, max_budget_usd=Decimal("0.50"))
    assert len(catalog.all()) == 4


def test_a_shipped_graph_naming_a_missing_tool_is_refused() -> None:
    with pytest.raises(GraphDefinitionError, match="there is no tool"):
        GraphCatalog.load([SHIPPED_GRAPHS], checks=CHECKS, known_tools=())


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "planner.md").mkdir()
    with pytest.raises(GraphDefinitionError, match=r"planner\.md: file: cannot be read"):
        GraphCatalog.load([tmp_path], checks=CHECKS, known_tools=())


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "planner.md").write_text(f"\ufeff---\n{HEAD}\n---\nHi", encoding="utf-8")
    assert GraphCatalog.load([tmp_path], checks=CHECKS, known_tools=()).all()[0].system_prompt == "Hi"


@pytest.mark.parametrize(
    ("head", "key"),
    [
        ("native_tools: [Read, WebFetch]", "native_tools.1"),
        ("native_tools: [Read, Read]", "native_tools"),
        ("workspace: {max_bytes: 5}", "workspace"),
        ("prompt_preset: claude_code", "prompt_preset"),
        ("native_tools: [Read]\nprompt_preset: other", "prompt_preset"),
        ("native_tools: [Read]\nworkspace: {max_byte: 5}", "workspace.max_byte"),
        ("native_tools: [Read]\nworkspace: {max_files: 0}", "workspace.max_files"),
        ("native_tools: [Bash]\nnetwork: [127.0.0.1]", "network.0"),
        ("native_tools: [Read]\nnetwork: [pypi.org]", "network"),
        ("native_tools: [Read]\nworkspace: {mounts: [{host_path: a}]}", "workspace.mounts.0.host_path"),
        ("native_tools: [Read]\nworkspace: {mounts: [{host_path: /}]}", "workspace.mounts"),
        ("native_tools: [Read]\nworkspace: {mounts: [{host_path: /etc}]}", "workspace.mounts.0.host_path"),
        (
            "native_tools: [Read]\nworkspace: {mounts: [{host_path: /etc, mount_path: ../x}]}",
            "workspace.mounts.0.mount_path",
        ),
    ],
)
def test_an_error_in_a_workspace_names_its_key(tmp_path: Path, head: str, key: str) -> None:
    problem = fault(tmp_path, f"{HEAD}\n{head}")

    assert problem.startswith(f"graph file planner.md: {key}: ")
    assert "(line " in problem


def test_a_graph_with_native_tools_needs_the_full_cli_and_may_give_them_to_agents(tmp_path: Path) -> None:
    agents = "agents: {helper: {description: Helps., prompt: Help., tools: [Read]}}"

    spec = load(tmp_path, f"{HEAD}\nnative_tools: [Read, Bash]\napprove: [Bash]\n{agents}")

    assert spec.native_tools == ("Read", "Bash")
    assert needs_full_mode(spec)
    assert "no tool of this graph" in fault(tmp_path, f"{HEAD}\nnative_tools: [Bash]\n{agents}")


def test_an_agent_has_only_skills_of_its_graph(tmp_path: Path) -> None:
    agents = "agents: {helper: {description: Helps., prompt: Help., skills: [report]}}"

    problem = fault(tmp_path, f"{HEAD}\n{agents}")

    assert "agents: the agent 'helper' names 'report', which is no skill of this graph (line 3" in problem


RULED = f"{HEAD}\ntools: [demo__a, demo__b]"


def described(tool_id: str) -> RuledTool:
    """What rules know of the tools: of one the arguments, of the other none."""
    fields = {"to": {"type": "string"}, "n": {"type": "integer"}} if tool_id == "demo__a" else {}
    effect: Effect = "external_side_effect" if tool_id == "demo__a" else "read_only"
    return RuledTool(effect, {"properties": fields})


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("{tool: demo__c, do: deny}", "rules.0.tool: 'demo__c' is neither a tool of this graph nor an"),
        ("{tool: other__*, do: deny}", "rules.0.tool: 'other__*' is neither a tool of this graph nor"),
        ("{tool: Agent, do: deny}", "rules.0.tool: 'Agent' is neither"),
        ("{tool: demo a, do: deny}", "rules.0.tool: must be a tool, an effect, or a pattern"),
        ("{tool: demo__a, do: forbid}", "rules.0.do: must be 'allow', 'ask' or 'deny'"),
        ("{tool: demo__a}", "rules.0.do: is required"),
        ("{tool: demo__a, do: ask, stop: true}", "rules.0.stop: is only for do: deny"),
        ("{tool: demo__a, do: allow, message: x}", "rules.0.message: is only for do: ask or deny"),
        ("{tool: demo__a, do: deny, if: x}", "rules.0.if: there is no such key"),
        ("{tool: demo__a, when: true, do: deny}", "rules.0.when: must be a string; put it in quotes"),
        ("{tool: demo__a, when: args.too == '', do: ask}", "rules.0.when: there is no args.too; did you"),
        ("{tool: demo__a, when: args.n == '', do: ask}", "rules.0.when: == cannot be used with int"),
        ("{tool: demo__b, when: args.to == '', do: ask}", "rules.0.when: there is no args.to"),
        ("{tool: read_only, when: args.to == '', do: ask}", "rules.0.when: there is no args.to"),
        ("{tool: '*', when: args.both == '', do: ask}", "rules.0.when: there is no args.both"),
    ],
)
def test_a_mistake_in_a_rule_is_named_with_its_key_and_line(tmp_path: Path, rules: str, problem: str) -> None:
    text = fault(tmp_path, f"{RULED}\nrules:\n  - {rules}")
    assert text.startswith(f"graph file planner.md: {problem}")
    assert "(line 5, column " in text


@pytest.mark.parametrize(
    ("head", "rules"),
    [
        (RULED, "{tool: '*', when: has(args.to) && args.n > 1, do: ask}"),
        (RULED, "{tool: state_change, when: args.unknown, do: ask}"),
        (f"{RULED}\nclient_tools: true", "{tool: 'pick_*', when: args.unknown, do: deny, stop: true}"),
        (f"{RULED}\nclient_tools: true", "{tool: '*', when: has(args.unknown), do: deny}"),
        (f"{HEAD}\nagents: {{a: {{description: d, prompt: p}}}}", "{tool: Agent, do: ask, message: x}"),
        (f"{HEAD}\nmcp_servers: {{lib: {{{SERVER}}}}}", "{tool: 'lib__*', when: args.x == 1, do: deny}"),
    ],
)
def test_rules_may_be_about_tools_that_are_known_when_a_run_starts(
    tmp_path: Path, head: str, rules: str
) -> None:
    assert len(load(tmp_path, f"{head}\nrules: [{rules}]").all_rules) == 1


def test_approve_is_a_short_form_of_rules_that_ask_after_all_others(tmp_path: Path) -> None:
    spec = load(tmp_path, f"{RULED}\nrules: [{{tool: demo__a, do: allow}}]\napprove: read_only, demo__*")

    assert [(rule.tool, rule.do) for rule in spec.all_rules] == [
        ("demo__a", "allow"),
        ("read_only", "ask"),
        ("demo__*", "ask"),
    ]
    assert spec.asks
    problem = fault(tmp_path, f"{RULED}\napprove: [demo__a, demo__c]")
    assert problem.startswith("graph file planner.md: approve: 'demo__c' is neither a tool of this graph")
    assert "(line 4, column 20)" in problem


def test_mounts_must_be_inside_the_allowed_roots(tmp_path: Path) -> None:
    (tmp_path / "graphs").mkdir()
    (tmp_path / "files").mkdir()
    head = f"native_tools: [Read]\nworkspace: {{mounts: [{{host_path: {tmp_path / 'files'}}}]}}"
    (tmp_path / "graphs" / "g.md").write_text(f"---\n{HEAD}\n{head}\n---\nHi\n")

    catalog = GraphCatalog.load([tmp_path / "graphs"], checks=CHECKS, known_tools=(), host_roots=[tmp_path])

    assert catalog.all()[0].workspace.mounts[0].target == "files"
    with pytest.raises(GraphDefinitionError, match="RUNTALLY_ALLOWED_HOST_ROOTS"):
        GraphCatalog.load(
            [tmp_path / "graphs"], checks=CHECKS, known_tools=(), host_roots=[tmp_path / "graphs"]
        )


def test_a_graph_of_a_provider_without_an_executor_is_refused(tmp_path: Path) -> None:
    assert "provider: must be claude_agents" in fault(tmp_path, f"{HEAD}\nprovider: other")


@pytest.mark.parametrize(("key", "line"), [("native_tools", 4), ("prompt_preset", 5)])
def test_a_key_that_needs_the_cli_is_refused_with_its_line(tmp_path: Path, key: str, line: int) -> None:
    head = f"{HEAD}\nprovider: messages\nnative_tools: [Read]\nprompt_preset: claude_code"
    (tmp_path / "planner.md").write_text(f"---\n{head}\n---\nHi\n")
    problems: list[GraphDefinitionError] = []

    checks = {"messages": check_messages_graph}
    GraphCatalog.load([tmp_path], checks=checks, known_tools=(), problems=problems)

    assert (
        f"graph file planner.md: {key}: is only for graphs of claude_agents, not of messages "
        f"(line {line}, column 1)"
    ) in map(str, problems)


def test_keys_are_checked_by_the_executor_of_the_graphs_provider(tmp_path: Path) -> None:
    (tmp_path / "planner.md").write_text(f"---\n{HEAD}\nprovider: other\nnative_tools: [Any]\n---\nHi\n")

    catalog = GraphCatalog.load([tmp_path], checks={**CHECKS, "other": lambda _: ()}, known_tools=())

    assert [graph.id for graph in catalog.all()] == ["other:planner"]
