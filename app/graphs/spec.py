"""GraphSpec: the definition of a graph, independent of its executor."""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
)

from app.gateway.web.spec import WebSpec
from app.graphs.presentation import Icon, Suggestions, Title
from app.graphs.rules.spec import ToolPattern, ToolRule
from app.graphs.schemas import GraphInput, GraphOutput
from app.platform.serialization.strict_yaml import StrictModel
from app.requests.blank import require_visible
from app.requests.dollars import Dollars
from app.requests.run_request import (
    LEAST_THINKING,
    Effort,
    KeepOpen,
    OnDisconnect,
    PermissionMode,
    RunLimits,
    TaskBudget,
)
from app.tools.mcp.spec import McpServer, ServerName, check_names, remote_ids
from app.tools.skills.reading import SKILL_TOOL
from app.workspaces.egress.hosts import EgressHost
from app.workspaces.spec import WorkspaceSpec

AGENT_TOOL = "Agent"
"""The id of the tool that starts a subagent."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NAME_FORM = "up to 100 letters, digits, . _ and -, the first one a letter or digit"
_AGENT_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_AGENT_NAME_FORM = "up to 64 lower case letters, digits and -, the first one a letter"


def _comma_separated(names: object) -> object:
    # As Claude Code's agents have them.
    if isinstance(names, str):
        return [name.strip() for name in names.split(",") if name.strip()]
    return names


def _is_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name of a graph, that of its file, has {_NAME_FORM}: rename the file")
    return name


def _is_agent_name(name: str) -> str:
    if not _AGENT_NAME.fullmatch(name):
        raise ValueError(f"the name of an agent has {_AGENT_NAME_FORM}")
    return name


def _in_foreground(background: object) -> object:
    if background:
        raise ValueError("must be false: the call that starts a subagent lasts until it has ended")
    return background


Names = Annotated[tuple[str, ...], BeforeValidator(_comma_separated)]
"""A list, or a text with commas."""
_Text = Annotated[str, AfterValidator(require_visible)]


class AgentSpec(StrictModel):
    """A subagent with its own prompt, its own model and some of the graph's tools."""

    description: _Text
    """Read by the model to decide when to use this subagent."""
    prompt: _Text
    tools: Names = ()
    skills: Names = ()
    """Those of the graph's that it is told of; without any it can read none."""
    model: str | None = None
    """None means the run's model."""
    max_turns: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    """How many turns it has for one task."""
    effort: Effort | None = None
    """None means the run's effort."""
    background: Annotated[bool, Field(strict=True), AfterValidator(_in_foreground)] = False
    """Agents of Claude Code have it. Here the agent waits for its subagents, and so does the run."""


class ClientToolRule(StrictModel):
    """Which client tools a graph takes."""

    names: Annotated[str, Field(min_length=1, max_length=1_000)]
    """A regular expression that matches their whole names."""

    @field_validator("names")
    @classmethod
    def _is_a_pattern(cls, names: str) -> str:
        try:
            re.compile(names)
        except re.error as error:
            raise ValueError("is not a regular expression") from error
        return names


AgentName = Annotated[str, AfterValidator(_is_agent_name)]


class GraphSpec(StrictModel):
    """A graph: the front matter of its file and, as `system_prompt`, the body."""

    name: Annotated[str, AfterValidator(_is_name)]
    description: _Text
    title: Title | None = None
    """What people call it; see `shown_title`."""
    icon: Icon | None = None
    suggestions: Suggestions = ()
    """Messages that people may begin with."""
    input: GraphInput | None = None
    """What requests may have in place of messages."""
    output: GraphOutput | None = None
    """What answers match, unless the request has a schema of its own."""
    provider: str = "claude_agents"
    """The executor of its runs, which also checks the keys that only it supports."""
    model: str | None = None
    tools: Names = ()
    native_tools: Names = ()
    """The executor's own tools for files and commands; runs have a workspace only with them."""
    prompt_preset: Literal["claude_code"] | None = None
    """A prompt of the executor's own, before that of the graph."""
    workspace: WorkspaceSpec = WorkspaceSpec()
    network: Annotated[tuple[EgressHost, ...], Field(max_length=64)] = ()
    """The hosts that commands may reach by TLS, with the port if it is not 443."""
    web: WebSpec | None = None
    """The provider's tools for the web, which both executors have."""
    max_turns: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    max_budget_usd: Annotated[Dollars, Field(gt=0)] | None = None
    on_budget: Literal["end", "pause"] = "end"
    """What a run does at its limit of dollars; `pause`: it waits `approval_timeout_s` for a higher one."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400, strict=True)] | None = None
    keep_open_s: KeepOpen | None = None
    """The most for which a request may keep its run open; None: none is kept open."""
    thinking_budget_tokens: Annotated[int, Field(ge=LEAST_THINKING, le=30_000, strict=True)] | None = None
    """The model's thinking budget; None means no thinking."""
    effort: Effort | None = None
    """How thoroughly the model works, and the most that a request may choose; None: as the registry says."""
    task_budget: TaskBudget | None = None
    """The tokens that the model is told to use for a run, and the most that a request may choose."""
    show_thinking: Annotated[bool, Field(strict=True)] = False
    """Whether the thinking is streamed to clients."""
    mcp_servers: dict[ServerName, McpServer] = Field(default_factory=dict)
    """External MCP servers by name; the id of their tools is `server__tool`."""
    skills: Names = ()
    """The operator's skills that the agent can read."""
    agents: dict[AgentName, AgentSpec] = Field(default_factory=dict)
    """Subagents by name."""
    rules: tuple[ToolRule, ...] = ()
    """The first that matches a call decides; a call without one is allowed."""
    approve: Annotated[tuple[ToolPattern, ...], BeforeValidator(_comma_separated)] = ()
    """Tools and tool effects that need a person's approval: rules that ask, after all others."""
    approval_timeout_s: Annotated[float, Field(gt=0, le=2_592_000, strict=True)] = 300
    """How long a tool call waits for a decision before it is denied."""
    client_tools: Annotated[bool, Field(strict=True)] | ClientToolRule = False
    """Whether requests may bring tools that the client executes, and which."""
    client_tool_timeout_s: Annotated[float, Field(gt=0, le=2_592_000, strict=True)] = 300
    """How long a call of a client tool waits for its result before it has failed."""
    questions: Annotated[bool, Field(strict=True)] = False
    """Whether the agent and the MCP servers may ask a person."""
    question_timeout_s: Annotated[float, Field(gt=0, le=2_592_000, strict=True)] = 300
    """How long a question waits for its answers before it has failed."""
    permission_mode: PermissionMode = "default"
    permission_modes: tuple[PermissionMode, ...] = ()
    """The modes that callers may set on a running run, besides `permission_mode`."""
    allow_system_messages: Annotated[bool, Field(strict=True)] = False
    """Whether clients may send system messages, which extend the system prompt."""
    retry: Annotated[bool, Field(strict=True)] = False
    """Whether a run with a conversation is resumed by another process if its process dies."""
    on_disconnect: OnDisconnect | None = None
    """The default of runs that AG-UI and AI SDK clients start; None means the server's."""
    system_prompt: Annotated[str, Field(min_length=1)]

    @field_validator("prompt_preset", "workspace")
    @classmethod
    def _only_for_native_tools(cls, value: Any, info: ValidationInfo) -> Any:
        if not info.data.get("native_tools", ("unknown",)):
            raise ValueError("is only for graphs with native_tools")
        return value

    @field_validator("network")
    @classmethod
    def _only_for_commands(cls, network: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if network and "Bash" not in info.data.get("native_tools", ("Bash",)):
            raise ValueError("is only for graphs with the native tool Bash")
        return network

    @field_validator("tools", "native_tools", "skills")
    @classmethod
    def _each_once(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"contains a {'skill' if info.field_name == 'skills' else 'tool'} twice")
        return names

    @field_validator("skills")
    @classmethod
    def _have_their_tool(cls, skills: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if skills and SKILL_TOOL in _tools_in(info):
            raise ValueError(f"are read with {SKILL_TOOL}, which must not be another tool of the graph")
        return skills

    @field_validator("mcp_servers")
    @classmethod
    def _have_tools_with_ids(cls, servers: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        check_names(servers)
        for tool_id in remote_ids(servers):
            if tool_id in info.data.get("tools", ()):
                message = f"{tool_id!r} is a tool of an MCP server; tools must not list it again"
                raise ValueError(message)
        return servers

    @property
    def all_tools(self) -> tuple[str, ...]:
        """The ids of all tools, including those of external MCP servers."""
        return (*self.tools, *remote_ids(self.mcp_servers))

    @field_validator("agents")
    @classmethod
    def _only_what_the_graph_has(
        cls, agents: dict[str, AgentSpec], info: ValidationInfo
    ) -> dict[str, AgentSpec]:
        for name, agent in agents.items():
            for tool in agent.tools:
                if tool not in {*_tools_in(info), *info.data.get("native_tools", ())}:
                    raise ValueError(f"the agent {name!r} names {tool!r}, which is no tool of this graph")
            for skill in agent.skills:
                # Without the key of the graph, if that is invalid itself.
                if skill not in info.data.get("skills", agent.skills):
                    raise ValueError(f"the agent {name!r} names {skill!r}, which is no skill of this graph")
        return agents

    @property
    def all_rules(self) -> tuple[ToolRule, ...]:
        """The rules, in their order, with those of `approve`."""
        return (*self.rules, *(ToolRule(tool=tool, do="ask") for tool in self.approve))

    @property
    def asks(self) -> bool:
        """Whether calls of its tools may wait for a person."""
        return any(rule.do == "ask" for rule in self.all_rules)

    @property
    def id(self) -> str:
        """`provider:name`."""
        return f"{self.provider}:{self.name}"

    @property
    def shown_title(self) -> str:
        return self.title or self.name.replace("-", " ").replace("_", " ").capitalize()

    def takes_client_tool(self, name: str) -> bool:
        """Whether requests may bring a tool with this name."""
        rule = self.client_tools
        return rule if isinstance(rule, bool) else re.fullmatch(rule.names, name) is not None

    @property
    def models(self) -> frozenset[str]:
        named = (self.model, *(agent.model for agent in self.agents.values()))
        return frozenset(name for name in named if name is not None)

    @property
    def limits(self) -> RunLimits:
        return RunLimits.of(
            timeout_s=self.timeout_s,
            max_turns=self.max_turns,
            max_budget_usd=self.max_budget_usd,
        )


def _tools_in(info: ValidationInfo) -> set[str]:
    return {*info.data.get("tools", ()), *remote_ids(info.data.get("mcp_servers", {}))}
