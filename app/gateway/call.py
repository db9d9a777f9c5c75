"""Call: one admitted call of the Messages API, and when its usage is recorded."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple, Protocol, TypeAlias

import structlog

from app.gateway.answer_usage import UNNAMED, MessageUsage
from app.gateway.estimate import CallSize
from app.gateway.prompt_cache.history import PromptHistory
from app.gateway.prompt_cache.prompt import AgentPrompt
from app.gateway.prompt_cache.rendered import PromptEvidence
from app.ids import MessageId
from app.platform.clock.clock import host_time
from app.platform.telemetry.model_call import ModelCall
from app.requests.outcome import SpentBudget
from app.usage.records import CacheMiss, ProviderCall, TokenUsage

log = structlog.get_logger(__name__)

Refusal = Literal[
    "ended",
    "deadline",
    "turns",
    "budget",
    "credit",
    "account_budget",
    "database",
    "journal",
    "answer",
    "provider",
]
"""Why a call was refused; `account_budget`: a budget of the account; `database`: the account's credit could
not be checked; `answer`: an earlier response was unusable or too large; `provider`: the provider refuses the
operator."""

COUNTED = "the prompt was sent and never answered; its tokens were counted by the provider"
ESTIMATED = "the prompt was sent and never answered; its tokens are estimated"
UNREADABLE = "the answer could not be read; its tokens are estimated"
REPEATED = "the provider used this message id before"
NAMELESS = "the provider sent no message id"


class Rejection(NamedTuple):
    """A request that the provider calls invalid."""

    status: int
    reason: str
    """The provider's text: for the log only."""
    request: bytes


CountPrompt: TypeAlias = Callable[[], Awaitable[int | None]]


@dataclass(frozen=True, slots=True)
class CallCost:
    """Dollars that calls may cost."""

    maximum: Decimal
    minimum: Decimal
    """The least credit that must be available."""
    most_tokens: int = 0
    least_tokens: int = 0


class CallTracing(Protocol):
    """Traces the calls of a run."""

    def start(self, requested_model: str, *, agent: str) -> ModelCall:
        """A request to the provider begins; `agent` is the CLI's id of a subagent, empty for the main one."""
        ...

    def end(self, call: ModelCall, message: MessageUsage | None) -> None:
        """It has ended, with the message that is charged for it, if any."""
        ...


async def _has_none() -> bool:
    return True


async def _report_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class MeteringHooks:
    """The hooks of a run's channel: prices, credit, and the usage of messages."""

    cost_of: Callable[[MessageUsage], Decimal]
    """The cost of a message in dollars; what has no known price counts as the most it may cost."""
    most_cost_of: Callable[[str, TokenUsage, str | None], Decimal]
    """Dollars that no message of a model with these counts and this requested speed exceeds."""
    check_credit: Callable[[CallCost], Awaitable[Refusal | None]]
    """Why the account may not spend now, or None. Gets the cost of all current calls of the run together;
    unless the call is refused, the maximum is reserved."""
    on_start: Callable[[MessageUsage, MessageUsage | None], None]
    """A message has begun; the second argument is the placeholder of its call, which it replaces. Called
    before the agent can read any of it; raises an `AppError` if it must not."""
    on_progress: Callable[[MessageUsage], None]
    """More of a message has arrived; called before the agent can read it."""
    on_usage: Callable[[MessageUsage], None]
    """A message's usage is known; a second call corrects the first."""
    on_void: Callable[[MessageUsage], None]
    """A message that was started costs nothing."""
    spent_budget: Callable[[], SpentBudget | None] = lambda: None
    """The budget because of which `check_credit` has refused."""
    is_held: Callable[[], bool] = lambda: False
    """Whether `check_credit` has refused because of what is reserved for the calls of other runs."""
    held_wait_s: float = 0.0
    """How long a call waits for that."""
    report_refusal: Callable[[], Awaitable[None]] = _report_nothing
    """A call is refused because of that budget."""
    release_credit: Callable[[], Awaitable[bool]] = _has_none
    """Reserves next to nothing until the next call; False if that could not be done."""
    profile_id: str | None = None
    """The user profile that the provider reports the calls under."""
    now: Callable[[], datetime] = host_time
    """The time by which messages are charged."""
    tracing: CallTracing | None = None
    evidence: PromptEvidence | None = None
    """None: prompts are not kept."""


@dataclass(slots=True)
class MessageIds:
    """The ids of a channel's messages, made unique: a provider may use one twice."""

    _reserved: set[str] = field(default_factory=set)
    _unanswered: int = 0
    _unnamed: int = 0

    def new_unanswered(self) -> MessageId:
        """The id of a placeholder, for a call that may never get a message."""
        self._unanswered += 1
        return self.reserve(f"unanswered-{self._unanswered}")

    def new_unnamed(self) -> MessageId:
        """An id for a message that the provider gave none; the journal keeps it, so it is charged once."""
        self._unnamed += 1
        return self.reserve(f"unnamed-{self._unnamed}")

    def reserve(self, message_id: str) -> MessageId:
        """This id, or one derived from it if it is in use."""
        name, number = message_id, 1
        while name in self._reserved:
            number += 1
            name = f"{message_id}~{number}"
        self._reserved.add(name)
        return MessageId(name)


@dataclass(slots=True)
class Spending:
    """Tokens and dollars that a call may use, or that calls have used."""

    tokens: int = 0
    usd: Decimal = Decimal(0)

    @classmethod
    def most_of(cls, size: CallSize, hooks: MeteringHooks) -> "Spending":
        """The most that a call of this size may use."""
        models = {size.model: 1}
        for name, times in size.others.items():
            models[name] = models.get(name, 0) + times
        usd = sum(
            (hooks.most_cost_of(name, size.maximum, size.speed) * times for name, times in models.items()),
            Decimal(0),
        )
        return cls(size.maximum.total_tokens, usd)

    def plus(self, other: "Spending") -> "Spending":
        """The sum."""
        return Spending(self.tokens + other.tokens, self.usd + other.usd)


@dataclass(slots=True, eq=False)
class Call:
    """One admitted call."""

    size: CallSize
    reserved: Spending
    hooks: MeteringHooks
    ids: MessageIds
    close_message: Callable[[MessageUsage], None]
    block: Callable[[Refusal], None]
    """Refuse all further calls of the run."""
    note_rejection: Callable[[Rejection], None]
    """The provider calls the request invalid; called before the agent knows."""
    task: asyncio.Task[None] | None
    prompts: PromptHistory = field(default_factory=PromptHistory)
    count_prompt: CountPrompt | None = None
    """Lets the provider count the prompt's tokens; None once it has."""
    covered: bool = False
    """Whether credit for it is reserved."""
    prompt: AgentPrompt | None = None
    """Set when the provider has accepted it."""
    trace: ModelCall | None = None
    """Its span; None without telemetry."""
    _charged: MessageUsage | None = None
    _cache_miss: CacheMiss | None = None
    _unanswered: MessageUsage | None = None
    _own_id: MessageId | None = None
    _began_at: datetime | None = None

    @property
    def unanswered(self) -> bool:
        """Whether the provider has got the prompt and neither answered nor refused it."""
        return self._unanswered is not None

    def start_trace(self, agent: str) -> None:
        """The request to the provider begins; `agent` is the CLI's id of a subagent, or empty."""
        if self.hooks.tracing is not None:
            self.trace = self.hooks.tracing.start(self.size.model, agent=agent)

    def end_trace(self) -> None:
        """The request has ended, and what it used is known."""
        trace, self.trace = self.trace, None
        if trace is not None and self.hooks.tracing is not None:
            self.hooks.tracing.end(trace, self._charged)

    def fail_trace(self, error: str) -> None:
        """The request failed."""
        if self.trace is not None:
            self.trace.fail(error)

    async def tighten(self) -> bool:
        """Let the provider count the prompt, and reserve accordingly less; False if it was counted before."""
        count, self.count_prompt = self.count_prompt, None
        if count is None:
            return False
        if (tokens := await count()) is not None:
            self.size = self.size.counted(tokens)
            self.reserved = Spending.most_of(self.size, self.hooks)
        return True

    def on_sent(self) -> None:
        """The whole prompt was sent to the provider: it is charged even if no answer arrives."""
        self._unanswered = MessageUsage(
            self.ids.new_unanswered(),
            self.size.model,
            self.size.estimate,
            complete=False,
            call=ProviderCall(requested_model=self.size.model),
            output_estimated=True,
            note=ESTIMATED,
            at=self.hooks.now(),
        )
        self.hooks.on_start(self._unanswered, None)

    def on_refused(self) -> None:
        """The provider responded with an error: nothing is charged."""
        if self._unanswered is not None:
            self.hooks.on_void(self._unanswered)
            self._unanswered = None

    def on_start(self, message: MessageUsage) -> None:
        """The answer has begun."""
        instead_of, self._unanswered = self._unanswered, None
        self.hooks.on_start(self._with_own_id(self._timed(message)), instead_of)

    def on_progress(self, message: MessageUsage) -> None:
        """More of the answer has arrived."""
        self.hooks.on_progress(self._with_own_id(self._timed(message)))

    def on_usage(self, message: MessageUsage) -> None:
        """The answer's usage is known."""
        message = self._timed(message)
        if self._unanswered is not None:
            self.on_start(message)
        self._charged = self._with_own_id(self._with_cache_miss(message))
        self.close_message(self._charged)
        if message.unreadable:
            # The limits of the run cannot be enforced without numbers.
            log.error(
                "gateway.usage_unreadable",
                counts=message.unreadable,
                request_id=message.call.provider_request_id,
            )
            self.block("answer")

    def on_unreadable(self, *, output_tokens: int, request_id: str | None) -> None:
        """The answer arrived completely, and no message can be read from it: its prompt is charged."""
        log.error("gateway.response_unparsable", request_id=request_id)
        self.block("answer")
        if self._unanswered is not None:
            usage = replace(self._unanswered.usage, output_tokens=output_tokens)
            self._unanswered = replace(self._unanswered, usage=usage, note=UNREADABLE)

    def on_no_answer(self, *, counted: int | None) -> None:
        """The call ended without an answer; `counted`: the prompt's tokens, if the provider counted them."""
        message, self._unanswered = self._unanswered, None
        if message is not None and counted is not None:
            usage = TokenUsage(input_tokens=counted, output_tokens=message.usage.output_tokens)
            note = COUNTED if message.note == ESTIMATED else message.note
            message = replace(message, usage=usage, note=note)
        if message is not None:
            self._charged = message
            self.close_message(message)

    def _timed(self, message: MessageUsage) -> MessageUsage:
        """The message with the time of its beginning."""
        self._began_at = self._began_at or self.hooks.now()
        return replace(message, at=self._began_at)

    def _with_cache_miss(self, message: MessageUsage) -> MessageUsage:
        sent, self.prompt = self.prompt, None
        if sent is not None:
            self._cache_miss = self.prompts.add(sent, message.usage, message.reported, at=message.at)
        return replace(message, cache_miss=self._cache_miss)

    def _with_own_id(self, message: MessageUsage) -> MessageUsage:
        if self._own_id is None:
            self._own_id = self._new_id(message)
        if self._own_id == message.message_id:
            return message
        if message.message_id == UNNAMED:
            return replace(message, message_id=self._own_id, note=message.note or NAMELESS)
        return replace(message, message_id=self._own_id, duplicate_of=message.message_id, note=REPEATED)

    def _new_id(self, message: MessageUsage) -> MessageId:
        if message.message_id == UNNAMED:
            return self.ids.new_unnamed()
        own = self.ids.reserve(message.message_id)
        if own != message.message_id:
            log.error(
                "gateway.message_id_repeated",
                message_id=message.message_id,
                request_id=message.call.provider_request_id,
            )
        return own
