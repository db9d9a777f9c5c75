"""The JSON that goes out: camelCase, money as decimal strings, times in UTC with a Z."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from app.billing.pricing import ModelPrice
from app.billing.repository import Receipt, RunTotals
from app.events import StopKind, StopState
from app.executors.port import Preview, RunContext
from app.graphs.spec import GraphSpec
from app.models.registry import Effort, KnownModel, Thinking
from app.requests import FinalUsage, GraphFinal, PermissionMode, RunStatus
from app.runs.repository import RunRecord
from app.tools.tool import Effect, Tool
from app.usage import Meters

Item = TypeVar("Item")


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


Money = Annotated[Decimal, PlainSerializer(lambda amount: f"{amount:.10f}", return_type=str)]
Moment = Annotated[datetime, PlainSerializer(_utc, return_type=str)]


class ResponseModel(BaseModel):
    """camelCase outside, read from attributes inside."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, from_attributes=True, frozen=True
    )


class Page(ResponseModel, Generic[Item]):
    """One page of a list; `nextCursor` is null on the last."""

    items: Sequence[Item]
    next_cursor: str | None = None


class AcceptedRun(ResponseModel):
    """A run that goes on in the background."""

    run_id: str
    status: RunStatus


class InterruptionResponse(ResponseModel):
    """How far the last wish to stop a run, or its turn, has come."""

    kind: StopKind
    state: StopState
    at: Moment


class GeneratedText(ResponseModel):
    """What a model answered."""

    content: str
    usage: FinalUsage
    run_id: str


class GeneratedObject(ResponseModel):
    """The object a model answered with; it matches the schema it was asked for by."""

    object_: Annotated[Any, Field(alias="object")]
    usage: FinalUsage
    run_id: str


class MetersResponse(ResponseModel):
    """How many messages each meter saw."""

    sdk: int
    gateway: int


class RunBillingResponse(ResponseModel):
    """What a run has been charged so far.

    `meters` and `drift`, the number of messages they disagreed on, are null until it has ended.
    """

    receipts: int
    cost_usd: Money
    meters: MetersResponse | None
    drift: int | None

    @classmethod
    def of(cls, totals: RunTotals, meters: Meters | None) -> "RunBillingResponse":
        """Show what a run was charged."""
        return cls(
            receipts=totals.receipts,
            cost_usd=totals.cost_usd,
            meters=None if meters is None else MetersResponse.model_validate(meters),
            drift=None if meters is None else meters.drift,
        )


class RunResponse(ResponseModel):
    """A run as it stands; `billing` is null for keys without `receipts:read`."""

    run_id: str
    graph_id: str
    model: str
    status: RunStatus
    attempt: int
    request_id: str | None
    state_key: str | None
    interruption: InterruptionResponse | None
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    contents_deleted_at: Moment | None
    final: GraphFinal | None
    tool_failures: int | None
    billing: RunBillingResponse | None

    @classmethod
    def of(cls, run: RunRecord, totals: RunTotals | None) -> "RunResponse":
        """Show a run."""
        return cls(
            run_id=run.key.run_id,
            graph_id=run.graph_id,
            model=run.model,
            status=run.status,
            attempt=run.attempt,
            request_id=run.request_id,
            state_key=run.state_key,
            interruption=_interruption(run),
            created_at=run.created_at,
            started_at=run.started_at,
            ended_at=run.ended_at,
            contents_deleted_at=run.contents_deleted_at,
            final=run.final,
            tool_failures=run.tool_failures,
            billing=None if totals is None else RunBillingResponse.of(totals, run.meters),
        )


def _interruption(run: RunRecord) -> InterruptionResponse | None:
    return None if run.interruption is None else InterruptionResponse.model_validate(run.interruption)


class ReceiptResponse(ResponseModel):
    """What one assistant message was charged."""

    id: UUID
    source_system: str
    source_reference: str
    run_id: str
    attempt: int
    usage_unit_id: str
    account_id: UUID
    api_key_id: UUID
    graph_id: str
    executor_type: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    # The usual rule would make it cacheWrite5MTokens.
    cache_write_5m_tokens: Annotated[int, Field(alias="cacheWrite5mTokens")]
    cache_write_1h_tokens: Annotated[int, Field(alias="cacheWrite1hTokens")]
    web_search_requests: int
    cost_usd: Money
    charged_credits: int
    price_version: str
    basis: str
    output_estimated: bool
    origin: str
    parent_tool_call_id: str | None
    ingress_request_id: str | None
    created_at: Moment
    cache_savings_usd: Money
    note: str | None

    @classmethod
    def of(cls, receipt: Receipt) -> "ReceiptResponse":
        """Show a receipt."""
        return cls.model_validate(receipt)


class GraphResponse(ResponseModel):
    """A graph; its prompt stays with the operator."""

    id: str
    description: str
    provider: str
    model: str | None
    tools: tuple[str, ...]
    native_tools: tuple[str, ...]
    agents: Annotated[tuple[str, ...], BeforeValidator(tuple)]
    approve: tuple[str, ...]
    permission_mode: PermissionMode
    permission_modes: tuple[PermissionMode, ...]
    retry: bool
    allow_system_messages: bool
    max_turns: int | None
    max_budget_usd: Money | None
    timeout_s: float | None
    show_thinking: bool

    @classmethod
    def of(cls, graph: GraphSpec) -> "GraphResponse":
        """Show a graph."""
        return cls.model_validate(graph)


class ToolResponse(ResponseModel):
    """A tool a graph may list."""

    id: str
    description: str
    effect: Effect
    input_schema: dict[str, Any]

    @classmethod
    def of(cls, tool: Tool) -> "ToolResponse":
        """Show a tool."""
        return cls.model_validate(tool)


class ModelOptionsResponse(ResponseModel):
    """How a model is asked; `thinking` is `disabled`, `adaptive` or a number of tokens."""

    thinking: Thinking
    effort: Effort | None
    max_output_tokens: int
    fallback: str | None


class ModelResponse(ResponseModel):
    """A model and everything it is called; prices are null for one that has none and cannot be used."""

    id: str
    aliases: tuple[str, ...]
    roles: tuple[str, ...]
    options: ModelOptionsResponse
    priced: bool
    # The usual rule would make them …UsdPerMtok.
    input_usd_per_mtok: Annotated[Money | None, Field(alias="inputUsdPerMTok")]
    output_usd_per_mtok: Annotated[Money | None, Field(alias="outputUsdPerMTok")]
    cache_read_usd_per_mtok: Annotated[Money | None, Field(alias="cacheReadUsdPerMTok")]
    cache_write_5m_usd_per_mtok: Annotated[Money | None, Field(alias="cacheWrite5mUsdPerMTok")]
    cache_write_1h_usd_per_mtok: Annotated[Money | None, Field(alias="cacheWrite1hUsdPerMTok")]

    @classmethod
    def of(cls, model: KnownModel, price: ModelPrice | None) -> "ModelResponse":
        """Show a model and what a message of usual length costs."""
        return cls(
            id=model.id,
            aliases=model.aliases,
            roles=model.roles,
            options=ModelOptionsResponse.model_validate(model.options),
            priced=price is not None,
            input_usd_per_mtok=price and price.input.base,
            output_usd_per_mtok=price and price.output.base,
            cache_read_usd_per_mtok=price and price.cache_read.base,
            cache_write_5m_usd_per_mtok=price and price.cache_write_5m.base,
            cache_write_1h_usd_per_mtok=price and price.cache_write_1h.base,
        )


class PreviewedTool(ResponseModel):
    """A tool a run may use."""

    id: str
    effect: Effect


class LimitsResponse(ResponseModel):
    """Where a run stops; null is no limit."""

    timeout_s: float
    max_turns: int | None
    max_budget_usd: Money | None
    max_total_tokens: int | None


class PreviewResponse(ResponseModel):
    """What would be executed. `sdkOptions` are the agent's own, without what is this machine's."""

    graph_id: str
    model: str
    model_options: ModelOptionsResponse
    tools: tuple[PreviewedTool, ...]
    limits: LimitsResponse
    timeout_s: float
    system_prompt: str
    prompt: Sequence[Mapping[str, Any]]
    sdk_options: Mapping[str, Any]

    @classmethod
    def of(cls, context: RunContext, preview: Preview) -> "PreviewResponse":
        """Show a run that was planned and not started."""
        timeout_s = context.timeout.total_seconds()
        return cls(
            graph_id=context.spec.id,
            model=context.model,
            model_options=ModelOptionsResponse.model_validate(context.options),
            tools=tuple(PreviewedTool.model_validate(tool) for tool in context.tools),
            limits=LimitsResponse(
                timeout_s=timeout_s,
                max_turns=context.limits.max_turns,
                max_budget_usd=context.limits.max_budget_usd,
                max_total_tokens=context.limits.max_total_tokens,
            ),
            timeout_s=timeout_s,
            system_prompt=preview.system_prompt,
            prompt=preview.prompt,
            sdk_options=preview.options,
        )


class Health(ResponseModel):
    """How the server is."""

    status: str


class Readiness(Health):
    """How the server is, and the provider of its models."""

    provider: Literal["ok", "unusable", "unknown"]
    """Whether it took our key or login when it was last asked."""


class FieldProblem(ResponseModel):
    """What is wrong with one field."""

    field: str
    message: str


class Problem(ResponseModel):
    """Something went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem] | None = None
    run_id: str | None = None
