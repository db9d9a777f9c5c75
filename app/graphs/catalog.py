"""GraphCatalog: the graphs of this server, read from Markdown files."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from app.errors import Invalid, NotFound
from app.graphs.file import GraphDefinitionError, GraphFile, definition_error
from app.graphs.rules.checking import RuledTool, rule_problems
from app.graphs.schemas import described as with_input
from app.graphs.spec import AGENT_TOOL, AgentSpec, GraphSpec
from app.platform.serialization.strict_yaml import did_you_mean
from app.tools.mcp.spec import remote_effects, secret_names
from app.tools.skills.library import NO_SKILLS, SkillLibrary
from app.tools.skills.reading import SKILL_TOOL, SkillArgs
from app.tools.skills.reading import described as with_skills
from app.workspaces.prompt import described as with_workspace
from app.workspaces.spec import HostPathRefused, resolve_host_path

SHIPPED_GRAPHS = Path(__file__).parent / "builtin"
_NO_GRAPH = "readme.md"
"""In lower case: explains a directory to its readers."""


class GraphNotFound(NotFound):
    """There is no graph with this id."""

    code = "graph_not_found"


class GraphUnsupported(Invalid):
    """This graph cannot be run by this executor."""

    code = "graph_unsupported"


class KeyProblem(NamedTuple):
    """What is wrong with a key of a graph; `key` is its dotted path."""

    key: str
    problem: str


GraphCheck: TypeAlias = Callable[[GraphSpec], Iterable[KeyProblem]]
"""Checks the keys of a graph that only its executor supports."""

DescribeTool: TypeAlias = Callable[[str], RuledTool]
"""What rules may know of a tool of this server or of an executor, by its id."""


class GraphCatalog:
    """The graphs of this server, by id."""

    def __init__(
        self,
        graphs: Iterable[GraphSpec],
        unsupported: Mapping[str, Sequence[KeyProblem]] | None = None,
        *,
        paths: Mapping[str, Path] | None = None,
    ) -> None:
        """`unsupported`: by id, the keys of a graph that the executor in this id does not support.

        `paths` are the files of graphs, by name.
        """
        self._paths = paths or {}
        self._graphs = {graph.id: graph for graph in graphs}
        self._unsupported = unsupported or {}

    @classmethod
    def load(
        cls,
        directories: Iterable[Path],
        *,
        checks: Mapping[str, GraphCheck],
        known_tools: Collection[str],
        known_secrets: Collection[str] = (),
        skills: SkillLibrary = NO_SKILLS,
        host_roots: Sequence[Path] = (),
        describe: DescribeTool = lambda _: RuledTool(),
        problems: list[GraphDefinitionError] | None = None,
    ) -> "GraphCatalog":
        """Read every `*.md` but a README; raises `GraphDefinitionError` for the first invalid one.

        With `problems`, the errors are added there instead, and those graphs left out.

        A graph whose file names no provider has one id for each provider whose check finds no problem.
        `checks` are those of the executors, by provider; `host_roots` are the directories that graphs may
        mount files from; `describe` returns what rules are checked against; `skills` are those that graphs
        may name.
        """
        invalid = [] if problems is None else problems
        found: dict[str, GraphSpec] = {}
        unsupported: dict[str, list[KeyProblem]] = {}
        paths: dict[str, Path] = {}
        for path in [path for directory in directories for path in _graph_files(directory)]:
            graph, errors = _read(path, known_tools, known_secrets, describe)
            if graph is not None:
                graph, unknown = _described(path, graph, skills)
                errors = [
                    *errors,
                    *unknown,
                    *_mount_errors(path, graph, host_roots),
                    *_executor_errors(path, graph, checks),
                ]
            if graph is not None and graph.id in found:
                errors = [definition_error(path, f"name: there is another graph {graph.id}")]
            invalid.extend(errors)
            if graph is not None and not errors:
                found[graph.id] = graph
                paths[graph.name] = path
                for other, faults in _of_other_providers(graph, checks):
                    if faults:
                        unsupported[other.id] = faults
                    else:
                        found.setdefault(other.id, other)
        if problems is None and invalid:
            raise invalid[0]
        return cls(found.values(), unsupported, paths=paths)

    def require_models(self, problem_of: Callable[[str], str | None]) -> None:
        """Raise `GraphDefinitionError` for the first model that cannot be used.

        `problem_of` returns what is wrong with the name of a model.
        """
        for graph in self.definitions():
            named = {("model",): graph.model} | {
                ("agents", name, "model"): agent.model for name, agent in graph.agents.items()
            }
            for keys, model in named.items():
                problem = None if model is None else problem_of(model)
                if problem is not None:
                    file = GraphFile.read(self._paths[graph.name])
                    raise file.error(keys, f"{'.'.join(keys)}: {problem}")

    def get(self, graph_id: str) -> GraphSpec:
        """The graph; raises `GraphNotFound` and `GraphUnsupported`."""
        if (problems := self._unsupported.get(graph_id)) is not None:
            needed = ", ".join(problem.key for problem in problems)
            raise GraphUnsupported.field("graphId", f"the executor of {graph_id} does not support: {needed}")
        if (graph := self._graphs.get(graph_id)) is None:
            raise GraphNotFound
        return graph

    def find(self, graph_id: str) -> GraphSpec | None:
        return self._graphs.get(graph_id)

    def definitions(self) -> list[GraphSpec]:
        """Every graph once, by id, whichever executors can run it."""
        return list({graph.name: graph for graph in reversed(self.all())}.values())[::-1]

    def all(self) -> list[GraphSpec]:
        return [self._graphs[graph_id] for graph_id in sorted(self._graphs)]


def _graph_files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.glob("*.md")) if path.name.lower() != _NO_GRAPH]


def _read(
    path: Path, known_tools: Collection[str], known_secrets: Collection[str], describe: DescribeTool
) -> tuple[GraphSpec | None, list[GraphDefinitionError]]:
    try:
        file = GraphFile.read(path)
    except GraphDefinitionError as error:
        return None, [error]
    graph, errors = file.graph()
    if graph is None:
        return None, errors
    unset = sorted(secret_names(graph.mcp_servers).difference(known_secrets))
    return graph, [
        *(
            file.error(("tools", index), f"tools: {_unknown_tool(tool, graph, known_tools)}")
            for index, tool in enumerate(graph.tools)
            if tool not in known_tools
        ),
        *(
            file.error(("mcp_servers",), f"mcp_servers: RUNTALLY_MCP_SECRETS has no {name!r}")
            for name in unset
        ),
        *_rule_errors(file, graph, describe),
    ]


def _rule_errors(file: GraphFile, graph: GraphSpec, describe: DescribeTool) -> Iterator[GraphDefinitionError]:
    own = (*graph.tools, *graph.native_tools, *([AGENT_TOOL] if graph.agents else []))
    remote = {tool: RuledTool(effect) for tool, effect in remote_effects(graph.mcp_servers).items()}
    tools = {tool: describe(tool) for tool in own} | remote
    if graph.skills:
        tools[SKILL_TOOL] = RuledTool("read_only", SkillArgs.model_json_schema())
    for index, key, problem in rule_problems(
        graph.all_rules, tools, more_tools=graph.client_tools is not False
    ):
        if index < len(graph.rules):
            yield file.error(("rules", index, key), f"rules.{index}.{key}: {problem}")
        else:
            yield file.error(("approve", index - len(graph.rules)), f"approve: {problem}")


def _unknown_tool(tool: str, graph: GraphSpec, known: Collection[str]) -> str:
    server = tool.removeprefix("mcp__").partition("__")[0]
    if tool[:1].isupper():
        hint = "; tools of the CLI belong under native_tools"
    elif server in graph.mcp_servers or tool.startswith("mcp__"):
        hint = f"; tools of MCP servers are listed under mcp_servers.{server}.tools, each with its effect"
    else:
        hint = did_you_mean(tool, known)
    return f"there is no tool {tool!r}{hint}"


def _of_other_providers(
    graph: GraphSpec, checks: Mapping[str, GraphCheck]
) -> Iterator[tuple[GraphSpec, list[KeyProblem]]]:
    """The graph as others run it, and what prevents that; nothing for a file that names its provider."""
    if "provider" in graph.model_fields_set:
        return
    for provider, check in checks.items():
        if provider != graph.provider:
            other = graph.model_copy(update={"provider": provider})
            yield other, list(check(other))


def _executor_errors(
    path: Path, graph: GraphSpec, checks: Mapping[str, GraphCheck]
) -> Iterator[GraphDefinitionError]:
    if (check := checks.get(graph.provider)) is None:
        yield _error(path, "provider", f"must be {' or '.join(checks)}")
        return
    for key, problem in check(graph):
        yield _error(path, key, problem)


def _described(
    path: Path, graph: GraphSpec, library: SkillLibrary
) -> tuple[GraphSpec, list[GraphDefinitionError]]:
    """The graph whose prompt says which skills and input it has, and what is in its workspace."""
    unknown = [name for name in graph.skills if name not in library.skills]
    if unknown:
        return graph, [
            _error(path, "skills", f"there is no skill {name!r}{did_you_mean(name, library.skills)}")
            for name in unknown
        ]
    skills = library.named(graph.skills)
    prompt = with_skills(graph.system_prompt, skills, in_workspace=bool(graph.native_tools))
    prompt = with_workspace(prompt, graph.workspace, graph.network)
    prompt = with_input(prompt, graph.input)
    agents = {name: _agent_with_skills(agent, graph, library) for name, agent in graph.agents.items()}
    return graph.model_copy(update={"system_prompt": prompt, "agents": agents}), []


def _agent_with_skills(agent: AgentSpec, graph: GraphSpec, library: SkillLibrary) -> AgentSpec:
    """The subagent with the tool for its skills, and a prompt that names them."""
    if not agent.skills:
        return agent
    sees_files = not set(graph.native_tools).isdisjoint(agent.tools)
    prompt = with_skills(agent.prompt, library.named(agent.skills), in_workspace=sees_files)
    return agent.model_copy(update={"prompt": prompt, "tools": (*agent.tools, SKILL_TOOL)})


def _mount_errors(path: Path, graph: GraphSpec, roots: Sequence[Path]) -> Iterator[GraphDefinitionError]:
    for index, mount in enumerate(graph.workspace.mounts):
        try:
            resolve_host_path(mount.host_path, roots)
        except HostPathRefused as error:
            yield _error(path, f"workspace.mounts.{index}.host_path", str(error))


def _error(path: Path, key: str, problem: str) -> GraphDefinitionError:
    keys = tuple(int(part) if part.isdecimal() else part for part in key.split("."))
    return GraphFile.read(path).error(keys, f"{key}: {problem}")
