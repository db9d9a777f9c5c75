"""GraphExecutor: the port of executors, with their input (RunContext) and result (RunOutcome); previewers."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Protocol

from app.billing.budgets.records import Amount
from app.conversations.cuts.answer_cuts import ShownAnswer
from app.conversations.records import Conversation, TurnBeginning
from app.events import AiEvent, MeterReport
from app.executors.control import RunControl
from app.executors.evidence import AddEvidence, keep_none
from app.executors.waiting.port import StoredCall
from app.graphs.spec import GraphSpec
from app.ids import RunKey
from app.models.registry import ModelOptions
from app.platform.clock.lease import Lease
from app.platform.json_schema.document import SchemaDocument
from app.platform.json_schema.model_schema import ModelSchema
from app.platform.logs.context import for_run
from app.platform.telemetry.run_trace import RunTrace
from app.platform.telemetry.trace_context import RunTraceContext
from app.requests.client_tools import ClientTool
from app.requests.outcome import ErrorCode, FinishReason, SpentBudget
from app.requests.run_request import GraphRunRequest, RunLimits
from app.tools.extensions.loading import Extensions
from app.tools.skills.records import Skill
from app.usage.records import NOTHING_SPENT, Attribution, Spent
from runtally.tools.tool import Tool


class RunOutcome(NamedTuple):
    """How a run without an answer ended, in the only two codes that clients get."""

    error: ErrorCode
    finish_reason: FinishReason


ABORTED = RunOutcome("aborted", "aborted")
TIMEOUT = RunOutcome("timeout", "timeout")
BUDGET = RunOutcome("rate_limit", "budget")
MAX_TURNS = RunOutcome("timeout", "max_turns")
NO_CREDIT = RunOutcome("insufficient_credits", "budget")
ACCOUNT_BUDGET = RunOutcome("budget_reached", "budget")
INTERNAL = RunOutcome("internal", "error")
INVALID_REQUEST = RunOutcome("invalid_request", "error")
RATE_LIMITED = RunOutcome("rate_limit", "error")
NO_DATABASE = RunOutcome("database_unavailable", "error")
NOT_FOUND = RunOutcome("not_found", "error")
UNAVAILABLE = RunOutcome("provider_unavailable", "error")
PROVIDER_REFUSED = RunOutcome("provider_refused", "error")
"""The provider refuses the operator, not this request."""
TOOL_SERVER_UNAVAILABLE = RunOutcome("tool_server_unavailable", "error")
AGENT_UNAVAILABLE = RunOutcome("agent_unavailable", "error")


class ExecutionFailed(Exception):
    """A run ended without an answer."""

    def __init__(
        self, error: ErrorCode, finish_reason: FinishReason = "error", budget: SpentBudget | None = None
    ) -> None:
        """`budget` is the one that was reached, if a run ends with `budget_reached`."""
        self.outcome = RunOutcome(error, finish_reason)
        self.budget = budget if error == ACCOUNT_BUDGET.error else None
        super().__init__(f"{error} ({finish_reason})")


AgentFailure = Literal[
    "missing", "not_started", "exited", "killed", "disconnected", "line_broken", "line_too_long"
]
"""How the agent's program failed, for the operator: clients get `agent_unavailable` for each."""


class AgentFailed(ExecutionFailed):
    """The agent's program failed before the run had an answer."""

    def __init__(self, failure: AgentFailure, *, is_silent: bool) -> None:
        """`is_silent`: it had said nothing and called no tool."""
        self.failure = failure
        self.is_silent = is_silent
        super().__init__(*AGENT_UNAVAILABLE)


class RunParked(Exception):
    """A run stops being executed: its next attempt goes on with the calls that wait, from this state."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        """`state` is JSON of the executor, which gets it back as `RunPlan.parked`."""
        self.state = state
        super().__init__("parked")


FIRST_ATTEMPT = 0


@dataclass(frozen=True, slots=True)
class ClientToolSchema:
    """The schema of the arguments of a tool that the client executes."""

    checked: SchemaDocument
    """What the arguments are checked against."""
    shown: dict[str, Any]
    """As the model sees it."""
    note: str
    """What the tool's description says about the rest."""


@dataclass(frozen=True, slots=True)
class RunSchemas:
    """The JSON schemas of one request, prepared once for all that a run does with them."""

    answer: ModelSchema | None = None
    client_tools: Mapping[str, ClientToolSchema] = field(default_factory=dict)
    """By the names of the tools."""


NO_SCHEMAS = RunSchemas()


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything that was decided about a run before it started; never changes."""

    run: RunKey
    attempt: int
    spec: GraphSpec
    model: str
    """The resolved model id, never an alias."""
    tools: tuple[Tool, ...]
    """The tools this run may use: those requested, all from the graph's list."""
    limits: RunLimits
    """The tightest of request, graph and server."""
    timeout: timedelta
    attribution: Attribution
    """What the run's receipts name."""
    keep_open: timedelta = timedelta()
    """For how long it is kept open for another message after each answer."""
    client_tools: tuple[ClientTool, ...] = ()
    """The tools of the request that the client executes."""
    ignored_client_tools: tuple[str, ...] = ()
    """The names of those that the graph does not take."""
    schemas: RunSchemas = NO_SCHEMAS
    """Of the answer and the client tools, prepared."""
    skills: tuple[Skill, ...] = ()
    """The skills of the graph; `tools` has the one that reads them."""
    remote_tools: tuple[str, ...] = ()
    """The ids of tools of external MCP servers that it may use; connected when the run starts."""
    spent: Spent = NOTHING_SPENT
    """What its earlier attempts used up of the limits."""
    agent_models: Mapping[str, str] = field(default_factory=dict)
    """The resolved model ids of subagents with a model of their own, by the subagent's name."""
    conversation: Conversation | None = None
    """The conversation it continues; None for a run without one."""
    beginning: TurnBeginning | None = None
    """What its turn begins with; None: it is to be looked up, as of each run that had to wait."""
    shown_answer: ShownAnswer | None = None
    """What its client shows of the answer before it; None: all of it, as far as is known."""
    queued_position: int | None = None
    """Of its first event, `queued`; None if it was started at once, or in a later attempt."""
    queue_wait: timedelta = timedelta()
    """How long it has waited for its start."""
    first_message_usd: Decimal = Decimal(0)
    """An estimate of what its first message may cost."""
    credits_to_reserve: int = 0
    """The same as it is charged."""
    reserved: Amount | None = None
    """What was reserved when it was accepted; None if there was no limit, or in a later attempt."""
    unlimited_at: float | None = None
    """When, in the event loop's time, its account had no credit limit; None: it may have one."""
    options: ModelOptions = field(default_factory=ModelOptions)
    """The request options of the model, from the registry and the graph."""
    trace: RunTraceContext | None = None
    """The trace that the run belongs to; None without telemetry, unless its caller has one."""
    accepted_at: datetime | None = None
    parked: Mapping[str, Any] | None = None
    """The state of `RunParked` with which an earlier attempt stopped, if none has begun with it."""
    reported: MeterReport | None = None
    """What the attempts that were parked have reported."""
    waits: Sequence[StoredCall] = ()
    """The calls of earlier attempts that waited for answers."""

    @property
    def request_id(self) -> str | None:
        return self.attribution.ingress_request_id

    def log_context(self) -> AbstractContextManager[object]:
        """Log lines of the body name the run; for its work in tasks that others have started."""
        return for_run(self.run, api_key_id=self.attribution.api_key_id, request_id=self.request_id)


class EventSink(Protocol):
    """Where an executor sends its events."""

    async def publish(self, event: AiEvent) -> int | None:
        """Record or publish an event; returns its position once readers can see it.

        None for events that are not published: usage, meters, output beyond the run's limit; and for the
        answer, which is published with the end of the run.
        Raises what the event log raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class RunContext:
    """What an executor gets besides the request."""

    plan: RunPlan
    control: RunControl
    """Requests to the running run: stop, messages, decisions."""
    events: EventSink
    lease: Lease = field(default_factory=Lease)
    """Whether this process may act for the run."""
    trace: RunTrace | None = None
    """Where calls of the model are traced; None without telemetry."""
    add_evidence: AddEvidence = keep_none
    """Keeps what operators may see of it."""
    extensions: Extensions = field(default_factory=Extensions)
    """The operator's hooks and credentials."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What an executor would do with a run; contains no secret, path, address or environment value."""

    system_prompt: str
    prompt: Sequence[Mapping[str, Any]]
    """The user message's content blocks."""
    options: Mapping[str, Any]
    """Everything that decides what the agent may do, in JSON."""


class GraphExecutor(Protocol):
    """Runs graphs of one provider."""

    async def run(self, request: GraphRunRequest, context: RunContext) -> None:
        """Execute a run and publish its events, `AssistantFinal` last.

        Raises `ExecutionFailed` for a run that ends without an answer, and `RunParked` once
        `control.parking` is set, if it has set `control.can_park`. Every message that the provider
        answered is reported by one `UsageReport`, also when the run fails or is stopped.
        """
        ...


class GraphPreviewer(Protocol):
    """Shows what the executor of one provider would run; also in processes that execute nothing."""

    async def preview(self, request: GraphRunRequest, plan: RunPlan) -> Preview:
        """What the executor would run, from the same parts; starts nothing."""
        ...
