"""One run's lane through the gateway: its token, its limits, what was observed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import structlog

from app.gateway.wire import MessageUsage
from app.ids import MessageId
from app.usage import NOTHING_SPENT, Spent, TokenUsage

log = structlog.get_logger(__name__)

Refusal = Literal["ended", "deadline", "turns", "budget", "credit", "journal"]
"""Why a call was not let through."""

GRACE_S = 1.0
"""How long calls under way may take to end by themselves once the run has ended."""


class CallRefused(Exception):
    """A call was not let through."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal)


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """Where a run must stop, whatever its agent does; None means no limit."""

    deadline: float
    """In the event loop's time."""
    max_turns: int | None = None
    max_total_tokens: int | None = None
    max_budget_usd: Decimal | None = None
    spent: Spent = NOTHING_SPENT
    """What was used of them before the lane opened."""


@dataclass(frozen=True, slots=True)
class LaneLinks:
    """What a lane asks and tells: prices, credit, and what was seen of a message."""

    cost_of: Callable[[str, TokenUsage], Decimal]
    """Dollars of a model's tokens."""
    objection: Callable[[], Awaitable[Refusal | None]]
    """Why the account may not spend now, if it may not."""
    opened: Callable[[MessageUsage], None]
    """A message has begun. Called before anybody can hear of it; raises when nobody may."""
    closed: Callable[[MessageUsage], None]
    """A message's numbers are known; a second call corrects the first."""


@dataclass(frozen=True, slots=True)
class CallSize:
    """The most a call may use."""

    model: str
    longest: TokenUsage


@dataclass(slots=True, eq=False)
class Call:
    """One call that was let through."""

    lane: "Lane"
    reserved: "_Spending"
    task: asyncio.Task[None] | None

    def opened(self, message: MessageUsage) -> None:
        """The answer has begun."""
        self.lane.links.opened(message)

    def closed(self, message: MessageUsage) -> None:
        """The answer's numbers are known."""
        self.lane.close_message(message)


@dataclass(slots=True)
class _Spending:
    tokens: int = 0
    usd: Decimal = Decimal(0)

    def plus(self, other: "_Spending") -> "_Spending":
        return _Spending(self.tokens + other.tokens, self.usd + other.usd)

    def reaches(self, limits: LaneLimits) -> bool:
        tokens, usd = limits.max_total_tokens, limits.max_budget_usd
        return (tokens is not None and self.tokens >= tokens) or (usd is not None and self.usd >= usd)


@dataclass(slots=True)
class Lane:
    """What one run may still call, and every message it was answered."""

    run_id: str
    """For the log."""
    token: str
    url: str
    """What the agent takes for the API's base URL."""
    limits: LaneLimits
    links: LaneLinks
    messages: dict[MessageId, MessageUsage] = field(default_factory=dict)
    """Messages whose numbers are known."""
    refused: Refusal | None = None
    """Why the first call that was refused was."""
    ended: bool = False
    _calls: list[Call] = field(default_factory=list)
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def budget_used(self) -> bool:
        """Whether what was used has reached a budget."""
        return self._spent().reaches(self.limits)

    @property
    def used_up(self) -> Refusal | None:
        """The limit that is reached, if one is."""
        refusal = self._refusal()
        # The tools of the last turn are part of it.
        return None if refusal == "turns" else refusal

    @asynccontextmanager
    async def call(self, size: Callable[[], CallSize]) -> AsyncIterator[Call]:
        """Let one call through; raises `CallRefused`. Waits while others may use up the budget."""
        call = await self._admit(self._reservation(size))
        try:
            if (objection := await self.links.objection() or self._refusal()) is not None:
                raise self._refuse(objection)
            yield call
        finally:
            self._calls.remove(call)
            self._changed()

    def close_message(self, message: MessageUsage) -> None:
        """Note what a message used; the last word counts."""
        self.messages[message.message_id] = message
        self.links.closed(message)

    async def close(self) -> None:
        """The run has ended: no more calls, and those under way end here. Nothing is noted later."""
        self.ended = True
        self._changed()
        try:
            async with asyncio.timeout(GRACE_S):
                while self._calls:
                    await self._change.wait()
        except TimeoutError:
            log.warning("calls outlived their run", calls=len(self._calls))
        while self._calls:
            tasks = [call.task for call in self._calls if call.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _admit(self, reserved: _Spending) -> Call:
        while (refusal := self._refusal()) is None and self._must_wait():
            await self._change.wait()
        if refusal is not None:
            raise self._refuse(refusal)
        call = Call(self, reserved, asyncio.current_task())
        self._calls.append(call)
        return call

    def _changed(self) -> None:
        """Wake everybody who waits: never waits itself, so no cancellation can lose it."""
        self._change.set()
        self._change = asyncio.Event()

    def _refuse(self, refusal: Refusal) -> CallRefused:
        self.refused = self.refused or refusal
        log.info("refused a call", reason=refusal)
        return CallRefused(refusal)

    def _refusal(self) -> Refusal | None:
        limits = self.limits
        if self.ended:
            return "ended"
        if asyncio.get_running_loop().time() >= limits.deadline:
            return "deadline"
        if self.budget_used:
            return "budget"
        if limits.max_turns is not None and self._turns() >= limits.max_turns:
            return "turns"
        return None

    def _must_wait(self) -> bool:
        """Whether calls under way may use up what is left: then they come first."""
        spent, turns = self._spent(), self.limits.max_turns
        for call in self._calls:
            spent = spent.plus(call.reserved)
        last_turn = turns is not None and self._turns() + len(self._calls) >= turns
        return bool(self._calls) and (last_turn or spent.reaches(self.limits))

    def _reservation(self, size: Callable[[], CallSize]) -> _Spending:
        limits = self.limits
        if limits.max_budget_usd is None and limits.max_total_tokens is None:
            return _Spending()
        most = size()
        return _Spending(most.longest.total_tokens, self.links.cost_of(most.model, most.longest))

    def _spent(self) -> _Spending:
        spent = _Spending(self.limits.spent.total_tokens, self.limits.spent.cost_usd)
        if self.limits.max_budget_usd is not None or self.limits.max_total_tokens is not None:
            for message in self.messages.values():
                cost = self.links.cost_of(message.model, message.usage)
                spent = spent.plus(_Spending(message.usage.total_tokens, cost))
        return spent

    def _turns(self) -> int:
        return self.limits.spent.turns + sum(message.is_turn for message in self.messages.values())
