"""One call that was let through: what is noted of it, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

from app.gateway.estimate import CallSize
from app.gateway.wire import MessageUsage
from app.ids import MessageId
from app.usage import TokenUsage

Refusal = Literal["ended", "deadline", "turns", "budget", "credit", "journal", "answer"]
"""Why a call was not let through; `answer`: an earlier one was answered with more than we take."""

COUNTED = "the prompt was sent and never answered; its tokens were counted by the provider"
ESTIMATED = "the prompt was sent and never answered; its tokens are estimated"
REPEATED = "the provider used this message id before"


@dataclass(frozen=True, slots=True)
class CallCost:
    """Dollars that calls may cost."""

    maximum: Decimal
    minimum: Decimal
    """What has to be there, should the rest be missing: the new call's prompt, and all of the others."""


@dataclass(frozen=True, slots=True)
class MeteringHooks:
    """What a lane asks and tells: prices, credit, and what was seen of a message."""

    cost_of: Callable[[str, TokenUsage], Decimal]
    """Dollars of a model's tokens."""
    check_credit: Callable[[CallCost], Awaitable[Refusal | None]]
    """Why the account may not spend now, if it may not; asked with what the run's calls under way
    may cost in all, which is set aside as far as it is there, unless there is an objection."""
    on_start: Callable[[MessageUsage, MessageUsage | None], None]
    """A message has begun, perhaps instead of the one that stood for its call until then. Called
    before anybody can hear of it; raises when nobody may."""
    on_usage: Callable[[MessageUsage], None]
    """A message's numbers are known; a second call corrects the first."""
    on_void: Callable[[MessageUsage], None]
    """A message that was opened costs nothing."""


@dataclass(slots=True)
class MessageIds:
    """The ids of a lane's messages: a provider may use one twice."""

    _reserved: set[str] = field(default_factory=set)
    _unanswered: int = 0

    def new_unanswered(self) -> MessageId:
        """An id for a message that may never have one."""
        self._unanswered += 1
        return self.reserve(f"unanswered-{self._unanswered}")

    def reserve(self, message_id: str) -> MessageId:
        """This id, or one like it that nobody has."""
        name, number = message_id, 1
        while name in self._reserved:
            number += 1
            name = f"{message_id}~{number}"
        self._reserved.add(name)
        return MessageId(name)


@dataclass(slots=True)
class Spending:
    """What a call may use, or calls have used."""

    tokens: int = 0
    usd: Decimal = Decimal(0)

    def plus(self, other: "Spending") -> "Spending":
        """Both."""
        return Spending(self.tokens + other.tokens, self.usd + other.usd)


@dataclass(slots=True, eq=False)
class Call:
    """One call that was let through."""

    size: CallSize
    reserved: Spending
    hooks: MeteringHooks
    ids: MessageIds
    close_message: Callable[[MessageUsage], None]
    block: Callable[[Refusal], None]
    """Let no more calls of the run through."""
    task: asyncio.Task[None] | None
    covered: bool = False
    """Whether credit for it is set aside."""
    _unanswered: MessageUsage | None = None
    _own_id: MessageId | None = None

    @property
    def unanswered(self) -> bool:
        """Whether the provider has the prompt and has neither answered nor refused it."""
        return self._unanswered is not None

    def on_sent(self) -> None:
        """The provider has been given the whole prompt: should nothing else be heard, it is charged."""
        self._unanswered = MessageUsage(
            self.ids.new_unanswered(),
            self.size.model,
            self.size.estimate,
            complete=False,
            output_estimated=True,
            note=ESTIMATED,
        )
        self.hooks.on_start(self._unanswered, None)

    def on_refused(self) -> None:
        """The provider has said that it does not answer: nothing is charged."""
        if self._unanswered is not None:
            self.hooks.on_void(self._unanswered)
            self._unanswered = None

    def on_start(self, message: MessageUsage) -> None:
        """The answer has begun."""
        instead_of, self._unanswered = self._unanswered, None
        self.hooks.on_start(self._with_own_id(message), instead_of)

    def on_usage(self, message: MessageUsage) -> None:
        """The answer's numbers are known."""
        if self._unanswered is not None:
            self.on_start(message)
        self.close_message(self._with_own_id(message))

    def abandoned(self, *, counted: int | None) -> None:
        """Nothing more will be heard; `counted`: how many tokens the prompt has, where somebody knows."""
        message, self._unanswered = self._unanswered, None
        if message is not None and counted is not None:
            message = replace(message, usage=TokenUsage(input_tokens=counted), note=COUNTED)
        if message is not None:
            self.close_message(message)

    def _with_own_id(self, message: MessageUsage) -> MessageUsage:
        if self._own_id is None:
            self._own_id = self.ids.reserve(message.message_id)
        if self._own_id == message.message_id:
            return message
        return replace(message, message_id=self._own_id, duplicate_of=message.message_id, note=REPEATED)
