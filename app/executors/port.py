"""What every executor is asked and what it may answer."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from app.conversations.records import Conversation
from app.events import AiEvent
from app.executors.control import RunControl
from app.graphs.spec import GraphSpec
from app.ids import RunKey
from app.models.registry import ModelOptions
from app.requests import ErrorCode, FinishReason, GraphRunRequest, RunLimits
from app.tools.tool import Tool
from app.usage import NOTHING_SPENT, Attribution, Spent


class RunOutcome(NamedTuple):
    """How a run without an answer ended: the only two words a client learns of it."""

    error: ErrorCode
    finish_reason: FinishReason


ABORTED = RunOutcome("aborted", "aborted")
TIMEOUT = RunOutcome("timeout", "timeout")
BUDGET = RunOutcome("rate_limit", "budget")
MAX_TURNS = RunOutcome("timeout", "max_turns")
NO_CREDIT = RunOutcome("insufficient_credits", "budget")
INTERNAL = RunOutcome("internal", "error")
UNAVAILABLE = RunOutcome("provider_unavailable", "error")


class ExecutionFailed(Exception):
    """A run ended without an answer."""

    def __init__(self, error: ErrorCode, finish_reason: FinishReason = "error") -> None:
        self.outcome = RunOutcome(error, finish_reason)
        super().__init__(f"{error} ({finish_reason})")


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything an executor knows of a run besides the request itself."""

    run: RunKey
    attempt: int
    spec: GraphSpec
    model: str
    """The resolved model id: never an alias."""
    tools: tuple[Tool, ...]
    """The tools this run may use: those asked for, all of them in the graph's list."""
    limits: RunLimits
    """The tightest of request, graph and server."""
    timeout: timedelta
    attribution: Attribution
    """Whom and what the run's receipts name."""
    remote_tools: tuple[str, ...] = ()
    """The ids of other people's tools it may use, to be had from their servers when it starts."""
    spent: Spent = NOTHING_SPENT
    """What its earlier attempts have used of the limits."""
    agent_models: Mapping[str, str] = field(default_factory=dict)
    """The resolved model ids of the subagents that have one of their own, by the agent's name."""
    conversation: Conversation | None = None
    """The conversation it goes on with; None for a run that stands alone."""
    reserved: int | None = None
    """The credits that were set aside for it when it was accepted, if its account has a limit."""
    control: RunControl = field(default_factory=RunControl)
    """What is asked of it meanwhile."""
    options: ModelOptions = field(default_factory=ModelOptions)
    """How the model is asked: as the registry says, but for what the graph decides."""

    @property
    def request_id(self) -> str | None:
        """The id of the HTTP request that asked for it."""
        return self.attribution.ingress_request_id


@dataclass(frozen=True, slots=True)
class Preview:
    """What an executor would do with a run; holds no secret, path, address or environment value."""

    system_prompt: str
    prompt: Sequence[Mapping[str, Any]]
    """The user message's content blocks."""
    options: Mapping[str, Any]
    """Everything that decides what the agent may do, in JSON."""


class GraphExecutor(Protocol):
    """Runs graphs of one provider."""

    def run(self, request: GraphRunRequest, context: RunContext) -> AsyncGenerator[AiEvent, None]:
        """Yield the run's events; end normally after `AssistantFinal` on success.

        Raises `ExecutionFailed` for every other end. Every message the provider answered is
        reported by one `UsageReport`, also when the run fails or is stopped.
        """
        ...

    def preview(self, request: GraphRunRequest, context: RunContext) -> Preview:
        """What `run` would execute, from the same parts; starts nothing."""
        ...
