"""JSON of agents, environments and sessions, as clients of Managed Agents read it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, Generic, Literal, Self, TypeVar

from pydantic import BaseModel

from app.graphs.spec import GraphSpec
from app.http.anthropic.schemas import UNKNOWN_DATE
from app.http.managed_agents.input import ENVIRONMENT
from app.http.response_model import Moment
from app.runs.managed.records import ManagedSession, SessionSettings, SessionStatus

_Item = TypeVar("_Item")
_CENT: Final = Decimal("0.01")


class ManagedPage(BaseModel, Generic[_Item]):
    """A page of a list; `next_page` is null on the last one."""

    data: Sequence[_Item]
    next_page: str | None = None


class AgentModel(BaseModel):
    """A language model."""

    id: str


class ServiceAccount(BaseModel):
    """Runs have no principal of their own."""

    type: Literal["service_account"] = "service_account"


class ManagedAgent(BaseModel):
    """A graph; `tools` are those that the client of a session executes."""

    type: Literal["agent"] = "agent"
    id: str
    version: Literal[1] = 1
    name: str
    description: str
    model: AgentModel
    system: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    mcp_servers: Sequence[Mapping[str, Any]] = ()
    skills: Sequence[Mapping[str, Any]] = ()
    multiagent: Mapping[str, Any] | None = None
    execution_identity: ServiceAccount = ServiceAccount()
    metadata: Mapping[str, str]
    created_at: str = UNKNOWN_DATE
    updated_at: str = UNKNOWN_DATE
    archived_at: str | None = None

    @classmethod
    def of(cls, graph: GraphSpec, model: str, settings: SessionSettings | None = None) -> Self:
        """Build from a graph, whose model is this one where neither it nor the session names another."""
        own = () if settings is None else settings.tools
        tools = [
            {
                "type": "custom",
                "name": each.name,
                "description": each.description,
                "input_schema": each.input_schema,
            }
            for each in own
        ]
        chosen = None if settings is None else settings.model
        known = {"tools": ", ".join([*graph.tools, *graph.native_tools])}
        return cls(
            id=graph.id,
            name=graph.shown_title,
            description=graph.description,
            model=AgentModel(id=chosen or graph.model or model),
            tools=tools,
            metadata={name: text for name, text in known.items() if text},
        )


class SelfHosted(BaseModel):
    """Where tools are executed."""

    type: Literal["self_hosted"] = "self_hosted"


class Environment(BaseModel):
    """The only one: this server."""

    type: Literal["environment"] = "environment"
    id: Literal["env_default"] = ENVIRONMENT
    name: str = "This server"
    description: str = "Tools are executed by this server, in the sandboxes of its graphs."
    config: SelfHosted = SelfHosted()
    metadata: Mapping[str, str] = {}
    created_at: str = UNKNOWN_DATE
    updated_at: str = UNKNOWN_DATE
    archived_at: str | None = None


class ListCost(BaseModel):
    """Cents."""

    amount: str
    currency: Literal["USD"] = "USD"

    @classmethod
    def of(cls, usd: Decimal) -> Self:
        """Build from dollars; a part of a cent counts as a whole one."""
        return cls(amount=str(int((usd / _CENT).to_integral_value(rounding=ROUND_CEILING))))


class Limit(BaseModel):
    """The most that the runs of a session may cost."""

    type: Literal["limit"] = "limit"
    max_list_cost: ListCost


class CacheCreation(BaseModel):
    """Tokens written to the prompt cache."""

    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int


class WebToolUses(BaseModel):
    """Uses of the provider's tools for the web."""

    web_search_requests: int
    web_fetch_requests: int


class SessionUsage(BaseModel):
    """What the receipts of a session's runs say so far; `list_cost` for keys with `receipts:read`."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation: CacheCreation
    server_tool_use: WebToolUses
    active_seconds: float
    list_cost: ListCost | None

    @classmethod
    def of(cls, session: ManagedSession, *, active_s: float, has_cost: bool) -> Self:
        """Build from the totals of a session."""
        totals, usage = session.totals, session.totals.usage
        return cls(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_input_tokens=usage.cache_read_tokens,
            cache_creation=CacheCreation(
                ephemeral_5m_input_tokens=usage.cache_write_5m_tokens,
                ephemeral_1h_input_tokens=usage.cache_write_1h_tokens,
            ),
            server_tool_use=WebToolUses(
                web_search_requests=totals.web_search_requests,
                web_fetch_requests=totals.web_fetch_requests,
            ),
            active_seconds=active_s,
            list_cost=ListCost.of(totals.cost_usd) if has_cost else None,
        )


class SessionStats(BaseModel):
    """For how long a session has worked, and existed."""

    active_seconds: float
    duration_seconds: float


class Session(BaseModel):
    """A session."""

    type: Literal["session"] = "session"
    id: str
    agent: ManagedAgent
    environment_id: Literal["env_default"] = ENVIRONMENT
    status: SessionStatus
    title: str | None
    metadata: Mapping[str, str]
    budget: Limit | None
    usage: SessionUsage
    stats: SessionStats
    created_at: Moment
    updated_at: Moment
    archived_at: Moment | None
    resources: Sequence[Mapping[str, Any]] = ()
    vault_ids: Sequence[str] = ()
    deployment_id: str | None
    outcome_evaluations: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, session: ManagedSession, agent: ManagedAgent, *, has_cost: bool) -> Self:
        """Build from a session."""
        now, conversation, settings = datetime.now(UTC), session.conversation, session.settings
        active_s, budget = session.active_s(now), settings.budget_usd
        duration_s = max((now - conversation.created_at).total_seconds(), 0.0)
        return cls(
            id=session.id,
            agent=agent,
            status=session.status,
            title=conversation.title,
            metadata=settings.metadata,
            budget=None if budget is None else Limit(max_list_cost=ListCost.of(budget)),
            usage=SessionUsage.of(session, active_s=active_s, has_cost=has_cost),
            stats=SessionStats(active_seconds=active_s, duration_seconds=duration_s),
            created_at=conversation.created_at,
            updated_at=conversation.updated_at,
            archived_at=settings.archived_at,
            deployment_id=conversation.deployment_id,
        )


class DeletedSession(BaseModel):
    """A session that was deleted."""

    type: Literal["session_deleted"] = "session_deleted"
    id: str


class SessionEvent(BaseModel):
    """An event; which other fields it has depends on its type."""

    model_config = {"extra": "allow"}

    type: str
    id: str


class SentEvents(BaseModel):
    """The events that were sent."""

    data: Sequence[SessionEvent]
