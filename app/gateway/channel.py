"""Channel: one run's access to the gateway; its token, limits and recorded messages."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal

import structlog

from app.gateway.answer_usage import MessageUsage
from app.gateway.call import (
    Call,
    CallCost,
    CountPrompt,
    MessageIds,
    MeteringHooks,
    Refusal,
    Rejection,
    Spending,
)
from app.gateway.estimate import CallSize
from app.gateway.prompt_cache.history import PromptHistory
from app.gateway.web.spec import WebSpec
from app.gateway.web.uses import WebUses
from app.ids import MessageId
from app.platform.background import first_of
from app.platform.logs.context import Fields, fields_of_context, start_detached
from app.requests.outcome import SpentBudget
from app.usage.records import NOTHING_SPENT, Spent

log = structlog.get_logger(__name__)

_NOT_COVERED: frozenset[Refusal | None] = frozenset({"credit", "account_budget"})
"""Refusals of calls that may fit for less than the most they may cost."""
_MAY_FIT: frozenset[Refusal | None] = _NOT_COVERED | {"budget"}
"""Refusals of calls that may fit once other calls have ended."""

_HELD_RETRY_S = 0.5

GRACE_S = 1.0
"""How long current calls may take to end by themselves once the run has ended."""


class CallRefused(Exception):
    """A call was refused."""

    def __init__(self, refusal: Refusal, budget: SpentBudget | None = None) -> None:
        self.refusal = refusal
        self.budget = budget
        super().__init__(refusal)


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """A run's limits, enforced whatever its agent does; None means no limit, unless said otherwise."""

    deadline: float
    """In the event loop's time."""
    max_turns: int | None = None
    max_total_tokens: int | None = None
    max_budget_usd: Decimal | None = None
    covers_calls: bool = False
    """Whether a call is refused if the most that it may cost is more than what is left of the dollars."""
    web: WebSpec | None = None
    """None means no web tools."""
    spent: Spent = NOTHING_SPENT
    """What earlier attempts have used of the limits."""
    of_client: bool = False
    """Whether an agent of a client makes the calls: each needs credit for the most that it may cost, and none
    is refused because another one had no usable answer."""

    @property
    def has_budget(self) -> bool:
        """Whether tokens or dollars are limited."""
        return self.max_total_tokens is not None or self.max_budget_usd is not None

    def reached_by(self, used: Spending) -> bool:
        """Whether this reaches the limit of tokens or dollars."""
        tokens, usd = self.max_total_tokens, self.max_budget_usd
        return (tokens is not None and used.tokens >= tokens) or (usd is not None and used.usd >= usd)


@dataclass(slots=True)
class Channel:
    """The calls and messages of one run."""

    run_id: str
    """For the log."""
    token: str
    url: str
    """The agent's base URL of the API."""
    limits: ChannelLimits
    hooks: MeteringHooks
    messages: dict[MessageId, MessageUsage] = field(default_factory=dict)
    """Messages whose usage is known."""
    refused: Refusal | None = None
    """Why the first refused call was refused."""
    rejection: Rejection | None = None
    """The last request that the provider called invalid."""
    ended: bool = False
    is_used: bool = False
    """Whether a call was admitted."""
    log_fields: Fields = field(default_factory=fields_of_context)
    """What log lines about its calls name: what those of the run name that opens it."""
    prompts: PromptHistory = field(default_factory=PromptHistory)
    """The prompts of the run, and the last one of its conversation."""
    stops_before_call: Callable[[], Awaitable[bool]] | None = None
    """Whether the run is stopped instead of making another call."""
    raise_budget: Callable[[Decimal, Decimal], Awaitable[Decimal | None]] | None = None
    """Asks for a higher limit of dollars, with what was spent and the limit; None if it stays."""
    web: WebUses = field(init=False)
    _costs: dict[MessageId, Decimal] = field(default_factory=dict)
    """Of the messages, in dollars."""
    _blocked: Refusal | None = None
    _ids: MessageIds = field(default_factory=MessageIds)
    _credit_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _calls: list[Call] = field(default_factory=list)
    _change_event: asyncio.Event = field(default_factory=asyncio.Event)
    _asking: asyncio.Task[None] | None = None
    """Asks for a higher limit, for all calls that wait for one."""

    def __post_init__(self) -> None:
        self.web = WebUses(self.limits.web, self.messages, self.limits.spent)

    @property
    def budget_exhausted(self) -> bool:
        """Whether the usage has reached the limit of tokens, or one of dollars that stays as it is."""
        return self.limits.reached_by(self._spent()) and not self._may_be_raised

    @property
    def budget_left_usd(self) -> Decimal | None:
        """What the run may still cost; None without such a limit."""
        most = self.limits.max_budget_usd
        return None if most is None else max(Decimal(0), most - self._spent().usd)

    @property
    def spent_budget(self) -> SpentBudget | None:
        """The budget of the account because of which a call was refused."""
        return self.hooks.spent_budget()

    @property
    def exhausted_limit(self) -> Refusal | None:
        """The limit that is reached, if any; for tool calls, which need no further call of the model."""
        refusal = self._refusal()
        # Tool calls of the last turn belong to that turn.
        is_for_model = refusal == "turns" or (refusal == "budget" and self._may_be_raised)
        return None if is_for_model else refusal

    @property
    def has_turns(self) -> bool:
        """Whether the model has finished a message, or a block of one."""
        return any(message.is_turn for message in self.messages.values())

    @asynccontextmanager
    async def call(self, size: CallSize, count_prompt: CountPrompt | None = None) -> AsyncIterator[Call]:
        """Admit one call; raises `CallRefused`. Waits while current calls may use up a limit.

        `count_prompt` is only used if what the size allows does not fit into a limit.
        """
        if self.stops_before_call is not None and await self.stops_before_call():
            raise CallRefused("ended")
        call = await self._admit(size, count_prompt)
        try:
            credit_refusal = await self._check_credit(call)
            # What has ended or reached its own limit meanwhile is refused by no budget.
            if (refusal := self._refusal() or credit_refusal) is not None:
                if refusal == "account_budget":
                    await self.hooks.report_refusal()
                raise self._refuse(refusal)
            self.is_used = True
            yield call
        finally:
            self._calls.remove(call)
            self._notify_waiters()

    async def release_credit(self) -> bool:
        """Reserve next to nothing until the next call; False if one is made, or it could not be done."""
        async with self._credit_lock:
            return not self._calls and await self.hooks.release_credit()

    async def wait_for_budget(self) -> None:
        """Wait while a limit of dollars is reached that may be raised: until it is, or is to stay."""
        while self._refusal() == "budget" and self._may_be_raised:
            asking = self._asking = self._asking or start_detached(self._ask_for_budget())
            await asyncio.wait({asking})
            if not asking.cancelled():
                asking.result()

    def close_message(self, message: MessageUsage) -> None:
        """Record the usage of a message; a later call replaces the record."""
        self.messages[message.message_id] = message
        self._costs.pop(message.message_id, None)
        self.hooks.on_usage(message)

    def block(self, reason: Refusal) -> None:
        """Refuse all further calls for this reason, unless a client makes them; current calls continue."""
        if self.limits.of_client:
            return
        self._blocked = self._blocked or reason
        self.refused = self.refused or reason

    def note_rejection(self, rejection: Rejection) -> None:
        """See `Call`."""
        self.rejection = rejection

    async def close(self) -> None:
        """The run has ended: refuse further calls, end the current ones. Nothing is recorded afterwards."""
        self.ended = True
        self._notify_waiters()
        if (asking := self._asking) is not None:
            asking.cancel()
            await asyncio.wait({asking})
        try:
            async with asyncio.timeout(GRACE_S):
                while self._calls:
                    await self._change_event.wait()
        except TimeoutError:
            log.warning("gateway.calls_cancelled", calls=len(self._calls))
        while self._calls:
            tasks = [call.task for call in self._calls if call.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _admit(self, size: CallSize, count_prompt: CountPrompt | None) -> Call:
        while (refusal := await self._lasting_refusal()) is None and self._must_wait():
            change = self._change_event
            if not (self.limits.has_budget and await self._tighten(self._calls)):
                await change.wait()
        if refusal is not None:
            raise self._refuse(refusal)
        call = Call(
            size,
            Spending.most_of(size, self.hooks),
            hooks=self.hooks,
            ids=self._ids,
            close_message=self.close_message,
            block=self.block,
            note_rejection=self.note_rejection,
            task=asyncio.current_task(),
            prompts=self.prompts,
            count_prompt=count_prompt,
        )
        self._calls.append(call)
        return call

    async def _lasting_refusal(self) -> Refusal | None:
        await self.wait_for_budget()
        return self._refusal()

    async def _ask_for_budget(self) -> None:
        most, raised = self.limits.max_budget_usd, None
        try:
            if self.raise_budget is not None and most is not None:
                raised = await self.raise_budget(self._spent().usd, most)
        finally:
            self._asking = None
        if raised is None:
            self.block("budget")
        else:
            self.limits = replace(self.limits, max_budget_usd=raised)

    async def _check_credit(self, call: Call) -> Refusal | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.hooks.held_wait_s
        # One at a time: each check includes the cost of the calls admitted before.
        async with self._credit_lock:
            while True:
                change = self._change_event
                refusal = await self._reserve_credit(call)
                if refusal not in _MAY_FIT or self._refusal() is not None:
                    break
                # Current calls, also those of other runs, may cost less than was reserved for them.
                is_alone = not any(other.covered for other in self._calls)
                is_held = refusal in _NOT_COVERED and self.hooks.is_held() and loop.time() < until
                if is_alone and not is_held:
                    break
                if is_alone:
                    # So that runs do not wait for each other.
                    await self.hooks.release_credit()
                await first_of(change.wait(), timeout_s=_HELD_RETRY_S if is_held else None)
            call.covered = refusal is None
        return refusal

    async def _reserve_credit(self, call: Call) -> Refusal | None:
        """Reserve the most that the calls may cost, or else all that is left if it covers the prompt."""
        covered = [other for other in self._calls if other.covered]
        if self._passes_budget([*covered, call]):
            await self._tighten([*covered, call])
            if self._passes_budget([*covered, call]):
                return "budget"
        refusal = await self.hooks.check_credit(_whole_cost([*covered, call]))
        if refusal in _NOT_COVERED and await self._tighten([*covered, call]):
            refusal = await self.hooks.check_credit(_whole_cost([*covered, call]))
        if refusal not in _NOT_COVERED or self.limits.of_client:
            return refusal
        prompt = self.hooks.most_cost_of(call.size.model, call.size.estimate, call.size.speed)
        whole, others = _whole_cost([*covered, call]), _whole_cost(covered)
        least_tokens = others.least_tokens + call.size.estimate.total_tokens
        return await self.hooks.check_credit(
            replace(whole, minimum=others.minimum + prompt, least_tokens=least_tokens)
        )

    def _passes_budget(self, calls: Iterable[Call]) -> bool:
        """Whether calls may pass a limit of dollars that covers all calls."""
        left = self.budget_left_usd if self.limits.covers_calls else None
        return left is not None and sum((call.reserved.usd for call in calls), Decimal(0)) > left

    async def _tighten(self, calls: Iterable[Call]) -> bool:
        """Let the provider count prompts of calls; False if all of them were counted before."""
        counted = await asyncio.gather(*(call.tighten() for call in calls))
        if any(counted):
            self._notify_waiters()
        return any(counted)

    def _notify_waiters(self) -> None:
        """Wake all waiting calls; does not wait itself, so that no cancellation can prevent it."""
        self._change_event.set()
        self._change_event = asyncio.Event()

    def _refuse(self, refusal: Refusal) -> CallRefused:
        self.refused = self.refused or refusal
        log.info("gateway.call_refused", reason=refusal)
        return CallRefused(refusal, self.spent_budget if refusal == "account_budget" else None)

    def _refusal(self) -> Refusal | None:
        limits = self.limits
        if self.ended:
            return "ended"
        if asyncio.get_running_loop().time() >= limits.deadline:
            return "deadline"
        if self._blocked is not None:
            return self._blocked
        if self.limits.reached_by(self._spent()):
            return "budget"
        if limits.max_turns is not None and self._turns() >= limits.max_turns:
            return "turns"
        return None

    @property
    def _may_be_raised(self) -> bool:
        """Whether a limit of dollars that is reached may still be raised, and no other one is reached."""
        others = replace(self.limits, max_budget_usd=None)
        is_open = self.raise_budget is not None and self._blocked is None and not self.ended
        return is_open and not others.reached_by(self._spent())

    def _must_wait(self) -> bool:
        """Whether current calls may use up what is left of a limit: then wait for them."""
        spent, turns = self._spent(), self.limits.max_turns
        for call in self._calls:
            spent = spent.plus(call.reserved)
        last_turn = turns is not None and self._turns() + len(self._calls) >= turns
        return bool(self._calls) and (last_turn or self.limits.reached_by(spent))

    def _spent(self) -> Spending:
        spent = Spending(self.limits.spent.total_tokens, self.limits.spent.cost_usd)
        if self.limits.has_budget:
            for message in self.messages.values():
                spent = spent.plus(Spending(message.usage.total_tokens, self._cost_of(message)))
        return spent

    def _cost_of(self, message: MessageUsage) -> Decimal:
        if (cost := self._costs.get(message.message_id)) is None:
            cost = self._costs[message.message_id] = self.hooks.cost_of(message)
        return cost

    def _turns(self) -> int:
        return self.limits.spent.turns + sum(message.is_turn for message in self.messages.values())


def _whole_cost(calls: Iterable[Call]) -> CallCost:
    """The most that calls may cost; nothing less is enough."""
    most = Spending()
    for call in calls:
        most = most.plus(call.reserved)
    return CallCost(most.usd, most.usd, most.tokens, most.tokens)
