"""`runtally graphs check`: loads graphs as the server does, and applies the rules of one to a call."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from app.bootstrap.agent import open_schema_checker
from app.bootstrap.catalogs import load_graphs, project_directory
from app.cli.terminal import print_words
from app.errors import Invalid
from app.executors.approvals import ApprovableTool, matching_rule, require_arguments
from app.executors.claude_agent.tools.builtin_tools import CliTool, denial_reason, visible_args
from app.graphs.file import GraphDefinitionError
from app.graphs.rules.evaluation import UNDECIDED, CallRules, Conditions
from app.graphs.rules.modes import permitted
from app.graphs.rules.spec import ToolRule
from app.graphs.spec import AGENT_TOOL, GraphSpec
from app.platform.serialization.strict_yaml import did_you_mean
from app.platform.settings import Settings
from app.requests.client_tools import client_tool_id
from app.tools.catalog import ToolCatalog
from app.tools.mcp.spec import remote_effects
from app.tools.policy import ToolCallDenied
from runtally.tools.tool import Effect


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A call that a graph's rules are applied to."""

    graph: str
    tool: str
    args: str
    """JSON."""
    account: str
    conversation: str


@dataclass(frozen=True, slots=True)
class _RemoteTool:
    """A tool whose arguments are checked elsewhere."""

    id: str
    effect: Effect

    @property
    def read_only(self) -> bool:
        return self.effect == "read_only"

    @property
    def input_schema(self) -> dict[str, Any]:
        return {"type": "object"}

    async def arguments(self, raw: object) -> object:
        return raw


def check_graphs(settings: Settings, console: Console, graph: str | None, *, as_json: bool = False) -> bool:
    """Print what is wrong with the graphs' files, and the rules of a graph; whether nothing is wrong."""
    problems: list[GraphDefinitionError] = []
    graphs = load_graphs(settings, _tools(settings), problems=problems)
    loaded = graphs.all() if graph is None or problems else [graphs.get(graph)]
    if as_json:
        rules = {each.id: [_described(each, rule) for rule in each.all_rules] for each in loaded}
        console.print_json(data={"problems": [str(problem) for problem in problems], "rules": rules})
        return not problems
    for problem in problems:
        print_words(console, str(problem), style="red")
    if graph is None or problems:
        print_words(console, f"{len(loaded)} graphs load: {', '.join(each.id for each in loaded)}")
        return not problems
    for found in loaded:
        print_words(console, f"{found.id} loads. Rules: {len(found.all_rules)}.")
        for rule in found.all_rules:
            print_words(console, _described(found, rule))
    return True


async def check_call(
    settings: Settings, console: Console, call: ExampleCall, *, as_json: bool = False
) -> None:
    """Print which rule decides about a call, and what becomes of it in the graph's permission mode."""
    tools = _tools(settings)
    graph = load_graphs(settings, tools).get(call.graph)
    tool, args = _tool(graph, call.tool, tools), _parsed(call.args)
    await require_arguments(tool.arguments, args, tool_id=tool.id)
    if isinstance(tool, CliTool) and tool.id != AGENT_TOOL:
        if (reason := denial_reason(tool.id, args)) is not None:
            if as_json:
                console.print_json(data={"rule": None, "outcome": f"denied. {reason}"})
            else:
                print_words(console, f"denied, whatever the rules are: {reason}")
            return
        args = visible_args(tool.id, args)
    run = {"id": "example", "graph": graph.id, "model": graph.model or "", "attempt": 0}
    facts: dict[str, dict[str, Any]] = {
        "run": {**run, "conversation": call.conversation},
        "account": {"id": call.account, "keyId": ""},
    }
    async with open_schema_checker(settings) as schemas:
        rules = CallRules(graph.all_rules, Conditions(schemas.pool), facts)
        rule = await matching_rule(rules, tool, args)
    described, outcome = _described(graph, rule), _outcome(graph, tool, rule)
    if as_json:
        console.print_json(data={"rule": described, "mode": graph.permission_mode, "outcome": outcome})
        return
    print_words(console, described)
    print_words(console, f"In the mode {graph.permission_mode}: {outcome}")


def _tools(settings: Settings) -> ToolCatalog:
    return ToolCatalog.load(settings.tools, project_directory())


def _tool(graph: GraphSpec, tool_id: str, tools: ToolCatalog) -> ApprovableTool:
    cli_tools = (*graph.native_tools, *([AGENT_TOOL] if graph.agents else []))
    remote = remote_effects(graph.mcp_servers)
    if tool_id in graph.tools:
        return tools.get(tool_id)
    if tool_id in cli_tools:
        return CliTool(tool_id)
    if tool_id in remote:
        return _RemoteTool(tool_id, remote[tool_id])
    if graph.takes_client_tool(tool_id):
        return _RemoteTool(client_tool_id(tool_id), "read_only")
    known = [*graph.all_tools, *cli_tools]
    raise Invalid(f"The graph {graph.id} has no tool {tool_id!r}{did_you_mean(tool_id, known)}.")


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        args = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid("The arguments are not JSON.") from error
    if not isinstance(args, dict):
        raise Invalid('The arguments must be a JSON object, such as {"to": "x"}.')
    return args


def _described(graph: GraphSpec, rule: ToolRule | None) -> str:
    if rule is None:
        return "no rule: the call is allowed"
    if rule is UNDECIDED:
        return "a condition has no answer for this call: it is denied"
    index = graph.all_rules.index(rule)
    key = f"rules.{index}" if index < len(graph.rules) else f"approve.{index - len(graph.rules)}"
    when = "" if rule.when is None else f" when {' '.join(rule.when.split())}"
    stop = ", ends the run" if rule.stop else ""
    message = "" if rule.message is None else f": {rule.message}"
    return f"{key}: {rule.do} {rule.tool}{when}{stop}{message}"


def _outcome(graph: GraphSpec, tool: ApprovableTool, rule: ToolRule | None) -> str:
    do = "allow" if rule is None else rule.do
    if do == "deny":
        return "denied"
    try:
        return {"allow": "called", "ask": "waits for a person"}[permitted(graph.permission_mode, tool, do)]
    except ToolCallDenied as denied:
        return f"denied. {denied}"
