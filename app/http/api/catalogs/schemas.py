"""JSON of graphs, tools and models."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from app.billing.prices.model_price import ModelPrice
from app.graphs.spec import GraphSpec
from app.http.response_model import Money, ResponseModel
from app.models.registry import KnownModel, Thinking
from app.models.request_options import efforts_of
from app.requests.run_request import Effort, PermissionMode
from app.requests.wire_models import LEFT_OUT_IF_NONE
from runtally.tools.tool import Effect


class WebResponse(ResponseModel):
    """Which of the provider's web tools a graph has, and where they may go."""

    search: bool
    fetch: bool
    allowed_domains: tuple[str, ...]
    """Only these; all if there are none."""
    blocked_domains: tuple[str, ...]
    max_uses: int
    """The most searches of a run, and the most pages it fetches."""
    subagents: bool


class SuggestionResponse(ResponseModel):
    """A message that people may begin with, and what to show for it."""

    title: str
    message: str


class GraphResponse(ResponseModel):
    """A graph, without its system prompt."""

    id: str
    title: str
    """Of its file, or its name as words."""
    icon: str | None
    """An emoji."""
    suggestions: tuple[SuggestionResponse, ...]
    input: dict[str, Any] | None
    """The JSON schema of what a request may have as `input`, in place of messages."""
    output: dict[str, Any] | None
    """The JSON schema of answers, if the request has none."""
    description: str
    provider: str
    model: str | None
    tools: tuple[str, ...]
    native_tools: tuple[str, ...]
    web: WebResponse | None
    agents: Annotated[tuple[str, ...], BeforeValidator(tuple)]
    skills: tuple[str, ...]
    """Their names."""
    has_rules: bool
    """Whether rules decide about its calls, those of `approve` aside."""
    approve: tuple[str, ...]
    permission_mode: PermissionMode
    permission_modes: tuple[PermissionMode, ...]
    retry: bool
    allow_system_messages: bool
    client_tools: bool
    """Whether requests may bring tools that the client executes."""
    client_tool_names: str | None
    """A regular expression that the whole names of such tools must match; null for any."""
    keeps_files: bool
    """Whether a turn begins with the files that one before has left."""
    questions: bool
    """Whether the agent and its MCP servers may ask a person."""
    max_turns: int | None
    max_budget_usd: Money | None
    timeout_s: float | None
    show_thinking: bool
    effort: Effort | None
    """The most that a request may choose; null for that of the model."""

    @classmethod
    def of(cls, graph: GraphSpec) -> "GraphResponse":
        rule = graph.client_tools
        return cls.built_from(
            graph,
            title=graph.shown_title,
            input=None if graph.input is None else graph.input.plain,
            output=None if graph.output is None else graph.output.document.plain,
            has_rules=bool(graph.rules),
            keeps_files=bool(graph.native_tools) and graph.workspace.keep != "run",
            client_tools=rule is not False,
            client_tool_names=None if isinstance(rule, bool) else rule.names,
        )


class ToolResponse(ResponseModel):
    """A tool that graphs can use."""

    id: str
    description: str
    effect: Effect
    input_schema: dict[str, Any]


class ModelOptionsResponse(ResponseModel):
    """Request options of a model; `thinking` is `disabled`, `adaptive` or a number of tokens."""

    thinking: Thinking
    effort: Effort | None
    max_output_tokens: int
    fallback: str | None
    context_window: int | None


class ModelResponse(ResponseModel):
    """A model, its aliases and prices; a model whose prices are null cannot be used."""

    id: str
    aliases: tuple[str, ...]
    roles: tuple[str, ...]
    options: ModelOptionsResponse
    efforts: tuple[Effort, ...]
    """Those that it takes, the lowest first."""
    priced: bool
    refusal: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    """Why the provider refuses this server's calls of it; left out if it does not, or nothing is known."""
    # The alias generator would make it …UsdPerMtok.
    input_usd_per_mtok: Annotated[Money | None, Field(alias="inputUsdPerMTok")]
    output_usd_per_mtok: Annotated[Money | None, Field(alias="outputUsdPerMTok")]
    cache_read_usd_per_mtok: Annotated[Money | None, Field(alias="cacheReadUsdPerMTok")]
    cache_write_5m_usd_per_mtok: Annotated[Money | None, Field(alias="cacheWrite5mUsdPerMTok")]
    cache_write_1h_usd_per_mtok: Annotated[Money | None, Field(alias="cacheWrite1hUsdPerMTok")]

    @classmethod
    def of(cls, model: KnownModel, price: ModelPrice | None, *, refusal: str | None) -> "ModelResponse":
        return cls.built_from(
            model,
            efforts=efforts_of(model.id),
            priced=price is not None,
            refusal=refusal,
            input_usd_per_mtok=price and price.input.base,
            output_usd_per_mtok=price and price.output.base,
            cache_read_usd_per_mtok=price and price.cache_read.base,
            cache_write_5m_usd_per_mtok=price and price.cache_write_5m.base,
            cache_write_1h_usd_per_mtok=price and price.cache_write_1h.base,
        )
