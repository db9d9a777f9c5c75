"""GraphCatalog: graph id -> GraphSpec, read from Markdown files."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from frontmatter.default_handlers import YAMLHandler
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from app.errors import NotFound, OperatorError
from app.requests import Dollars, PermissionMode, RunLimits
from app.tools.mcp_servers import McpServer, check_names, remote_ids, secrets_of
from app.tools.tool import Effect
from app.workspaces.spec import HostPathRefused, WorkspaceSpec, real_host_path

SHIPPED_GRAPHS = Path(__file__).parent / "builtin"


class GraphNotFound(NotFound):
    """There is no graph with this id."""

    code = "graph_not_found"


class GraphDefinitionError(OperatorError):
    """A graph file is wrong; the text names the file and the key."""


class AgentSpec(BaseModel):
    """A subagent: its own prompt, its own model, some of the graph's tools."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: Annotated[str, Field(min_length=1, pattern=r"\S")]
    """When to give it work, in words for the model."""
    prompt: Annotated[str, Field(min_length=1, pattern=r"\S")]
    tools: tuple[str, ...] = ()
    model: str | None = None
    """Left out: that of the graph's run."""


NativeTool = Literal["Read", "Write", "Edit", "Glob", "Grep", "Bash"]
"""Those of the CLI's own tools that make sense where nobody sits before a terminal."""

ServerName = Annotated[str, Field(pattern=r"^[a-z0-9]+(_[a-z0-9]+)*$", max_length=32)]
AgentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")]


class GraphSpec(BaseModel):
    """A graph: the head of its file and, as `system_prompt`, the body."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    description: Annotated[str, Field(min_length=1, pattern=r"\S")]
    provider: Literal["claude_agents"] = "claude_agents"
    model: str | None = None
    tools: tuple[str, ...] = ()
    native_tools: tuple[NativeTool, ...] = ()
    """Tools of the CLI's own; with them, and only then, a run has a workspace."""
    workspace: WorkspaceSpec = WorkspaceSpec()
    max_turns: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    max_budget_usd: Annotated[Dollars, Field(gt=0)] | None = None
    timeout_s: Annotated[float, Field(gt=0, le=86_400, strict=True)] | None = None
    thinking_budget_tokens: Annotated[int, Field(ge=1_024, le=30_000, strict=True)] | None = None
    """How long the model may think; without it, it does not."""
    show_thinking: Annotated[bool, Field(strict=True)] = False
    """Whether clients hear the thinking."""
    mcp_servers: dict[ServerName, McpServer] = Field(default_factory=dict)
    """Servers of other people's tools, by name; a tool's id is `server__tool`."""
    agents: dict[AgentName, AgentSpec] = Field(default_factory=dict)
    """Subagents it may give work to, by name."""
    approve: tuple[str, ...] = ()
    """Tools and effects of tools that need a person's consent."""
    approval_timeout_s: Annotated[float, Field(gt=0, le=86_400, strict=True)] = 300
    """How long a tool call waits for a person before it is denied."""
    permission_mode: PermissionMode = "default"
    permission_modes: tuple[PermissionMode, ...] = ()
    """The modes a caller may change a running run to, besides `permission_mode`."""
    allow_system_messages: Annotated[bool, Field(strict=True)] = False
    """Whether clients may extend the system prompt."""
    retry: Annotated[bool, Field(strict=True)] = False
    """Whether a run whose process died goes on in another one, given a conversation."""
    system_prompt: Annotated[str, Field(min_length=1)]

    @field_validator("approve")
    @classmethod
    def _is_consent_to_something(cls, approve: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        known = {*get_args(Effect), *_tools_in(info), *info.data.get("native_tools", ())}
        for name in approve:
            if name not in known:
                message = f"{name!r} is neither a tool of this graph nor an effect"
                raise ValueError(message)
        return approve

    @field_validator("workspace")
    @classmethod
    def _only_for_native_tools(cls, workspace: WorkspaceSpec, info: ValidationInfo) -> WorkspaceSpec:
        if not info.data.get("native_tools", ("unknown",)):
            message = "only a graph with native_tools has one"
            raise ValueError(message)
        return workspace

    @field_validator("tools", "native_tools")
    @classmethod
    def _each_tool_once(cls, tools: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(tools)) < len(tools):
            message = "names a tool twice"
            raise ValueError(message)
        return tools

    @field_validator("mcp_servers")
    @classmethod
    def _have_tools_with_ids(cls, servers: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        check_names(servers)
        for tool_id in remote_ids(servers):
            if tool_id in info.data.get("tools", ()):
                message = f"there is another tool {tool_id!r}"
                raise ValueError(message)
        return servers

    @property
    def all_tools(self) -> tuple[str, ...]:
        """The ids of every tool a run may be given, other people's included."""
        return (*self.tools, *remote_ids(self.mcp_servers))

    @field_validator("agents")
    @classmethod
    def _only_tools_of_the_graph(
        cls, agents: dict[str, AgentSpec], info: ValidationInfo
    ) -> dict[str, AgentSpec]:
        for name, agent in agents.items():
            for tool in agent.tools:
                if tool not in {*_tools_in(info), *info.data.get("native_tools", ())}:
                    message = f"the agent {name!r} names {tool!r}, which is no tool of this graph"
                    raise ValueError(message)
        return agents

    @property
    def needs_full_cli(self) -> bool:
        """Whether it needs what the CLI has in its full mode only: subagents and native tools."""
        return bool(self.agents or self.native_tools)

    @property
    def id(self) -> str:
        """`provider:name`."""
        return f"{self.provider}:{self.name}"

    @property
    def models(self) -> frozenset[str]:
        """What it and its subagents call their models."""
        named = (self.model, *(agent.model for agent in self.agents.values()))
        return frozenset(name for name in named if name is not None)

    @property
    def limits(self) -> RunLimits:
        """The most a request may use."""
        return RunLimits.of(
            timeout_s=self.timeout_s,
            max_turns=self.max_turns,
            max_budget_usd=self.max_budget_usd,
        )


def _tools_in(info: ValidationInfo) -> set[str]:
    return {*info.data.get("tools", ()), *remote_ids(info.data.get("mcp_servers", {}))}


class GraphCatalog:
    """The graphs this server has."""

    def __init__(self, graphs: Iterable[GraphSpec]) -> None:
        self._graphs = {graph.id: graph for graph in graphs}

    @classmethod
    def load(
        cls,
        directories: Iterable[Path],
        *,
        known_tools: Collection[str],
        known_secrets: Collection[str] = (),
        host_roots: Sequence[Path] = (),
    ) -> "GraphCatalog":
        """Read every `*.md`; raises `GraphDefinitionError` for the first that is wrong.

        `host_roots` are where graphs may mount files from.
        """
        catalog, problems = cls.survey(
            directories, known_tools=known_tools, known_secrets=known_secrets, host_roots=host_roots
        )
        for problem in problems:
            raise problem
        return catalog

    @classmethod
    def survey(
        cls,
        directories: Iterable[Path],
        *,
        known_tools: Collection[str],
        known_secrets: Collection[str] = (),
        host_roots: Sequence[Path] = (),
    ) -> tuple["GraphCatalog", list[GraphDefinitionError]]:
        """The graphs that can be used, and everything that is wrong with the others."""
        found: dict[str, GraphSpec] = {}
        problems: list[GraphDefinitionError] = []
        for path in [path for directory in directories for path in sorted(directory.glob("*.md"))]:
            graph, wrong = _read(path, known_tools, known_secrets)
            if graph is not None:
                wrong = [*wrong, *_wrong_mounts(path, graph, host_roots)]
            if graph is not None and graph.id in found:
                wrong = [_wrong(path, "name", f"there is another graph {graph.id}")]
            problems.extend(wrong)
            if graph is not None and not wrong:
                found[graph.id] = graph
        return cls(found.values()), problems

    def get(self, graph_id: str) -> GraphSpec:
        """The graph; raises `GraphNotFound`."""
        if (graph := self._graphs.get(graph_id)) is None:
            raise GraphNotFound
        return graph

    def find(self, graph_id: str) -> GraphSpec | None:
        """The graph, if there is one."""
        return self._graphs.get(graph_id)

    def all(self) -> list[GraphSpec]:
        """Every graph, by id."""
        return [self._graphs[graph_id] for graph_id in sorted(self._graphs)]


class UniqueKeys(yaml.SafeLoader):
    """Refuses a key given twice: YAML would silently take the last, also of two budgets."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - the loader's signature
    ) -> dict[Hashable, Any]:
        """See the loader."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            raise yaml.constructor.ConstructorError(problem="a key is given twice")
        return super().construct_mapping(node, deep)


def _read(
    path: Path, known_tools: Collection[str], known_secrets: Collection[str]
) -> tuple[GraphSpec | None, list[GraphDefinitionError]]:
    try:
        head, prompt = _parts(path)
    except GraphDefinitionError as error:
        return None, [error]
    reserved = [name for name in ("name", "system_prompt") if name in head]
    if reserved:
        said = "comes from the file itself, not from its head"
        return None, [_wrong(path, name, said) for name in reserved]
    try:
        graph = GraphSpec.model_validate({**head, "name": path.stem, "system_prompt": prompt})
    except ValidationError as error:
        return None, [_of_field(path, detail) for detail in error.errors(include_input=False)]
    unknown = [tool for tool in graph.tools if tool not in known_tools]
    unset = sorted(secrets_of(graph.mcp_servers).difference(known_secrets))
    return graph, [
        *(_wrong(path, "tools", f"there is no tool {tool!r}") for tool in unknown),
        *(_wrong(path, "mcp_servers", f"RUNTALLY_MCP_SECRETS has no {name!r}") for name in unset),
    ]


def _of_field(path: Path, detail: Any) -> GraphDefinitionError:
    key = ".".join(str(part) for part in detail["loc"])
    return _wrong(path, key, detail["msg"].removeprefix("Value error, "))


def _wrong_mounts(path: Path, graph: GraphSpec, roots: Sequence[Path]) -> Iterator[GraphDefinitionError]:
    for index, mount in enumerate(graph.workspace.mounts):
        try:
            real_host_path(mount.host_path, roots)
        except HostPathRefused as error:
            yield _wrong(path, f"workspace.mounts.{index}.host_path", str(error))


def _parts(path: Path) -> tuple[dict[Any, Any], str]:
    handler = YAMLHandler()
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
        source, prompt = handler.split(text) if handler.detect(text) else ("", text)
        head = handler.load(source, Loader=UniqueKeys)
    except OSError as error:
        raise _wrong(path, "file", "cannot be read") from error
    except (yaml.YAMLError, ValueError) as error:
        # The YAML loader raises a plain ValueError for a date that does not exist.
        raise _wrong(path, "front matter", "is not valid YAML between two lines of ---") from error
    if not isinstance(head or {}, dict):
        raise _wrong(path, "front matter", "must be keys and values")
    return head or {}, prompt.strip()


def _wrong(path: Path, key: str, problem: str) -> GraphDefinitionError:
    return GraphDefinitionError(f"graph file {path.name}: {key}: {problem}")
