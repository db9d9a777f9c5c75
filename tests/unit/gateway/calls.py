"""A lane, its billing and callers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from app.gateway.answer_usage import MessageUsage
from app.gateway.call import CallCost, MeteringHooks, Refusal
from app.gateway.channel import CallRefused, Channel, ChannelLimits
from app.gateway.estimate import CallSize
from app.ids import MessageId
from app.usage.records import TokenUsage
from tests.patience import PATIENCE_S

MODEL = "claude-haiku-5-5"
SOON_S = 0.02
_TURNS = 100
"""Of the event loop, after which calls do nothing but wait."""
FAR_S = 10 * PATIENCE_S


@dataclass(slots=True)
class Billing:
    """What a lane asks and tells; a token costs a dollar."""

    refusal: Refusal | None = None
    noted: list[tuple[str, str]] = field(default_factory=list)
    requested: list[tuple[int, int]] = field(default_factory=list)
    priced: list[str] = field(default_factory=list)

    def cost_of(self, message: MessageUsage) -> Decimal:
        self.priced.append(message.message_id)
        return Decimal(message.usage.total_tokens)

    async def check_credit(self, under_way: CallCost) -> Refusal | None:
        self.requested.append((int(under_way.maximum), int(under_way.minimum)))
        return self.refusal

    def open(self, message: MessageUsage, instead_of: MessageUsage | None) -> None:
        what = message.message_id
        self.noted.append(
            ("opened", what if instead_of is None else f"{what} instead of {instead_of.message_id}")
        )

    def hooks(
        self, check_credit: Callable[[CallCost], Awaitable[Refusal | None]] | None = None
    ) -> MeteringHooks:
        return MeteringHooks(
            cost_of=self.cost_of,
            most_cost_of=lambda _model, usage, _speed: Decimal(usage.total_tokens),
            check_credit=check_credit or self.check_credit,
            on_start=self.open,
            on_progress=lambda message: self.noted.append(("grown", message.message_id)),
            on_usage=lambda message: self.noted.append(("closed", message.message_id)),
            on_void=lambda message: self.noted.append(("voided", message.message_id)),
        )


def a_channel(billing: Billing, **limits: Any) -> Channel:
    far = {"deadline": asyncio.get_running_loop().time() + FAR_S}
    return Channel(
        "run-1", "token", "http://gateway/token", ChannelLimits(**{**far, **limits}), billing.hooks()
    )


def a_message(number: int = 1, tokens: int = 10, **fields: Any) -> MessageUsage:
    defaults = {"complete": True, "whole_blocks": 1}
    usage = TokenUsage(output_tokens=tokens)
    return MessageUsage(MessageId(f"msg_{number}"), MODEL, usage, **{**defaults, **fields})


def size(tokens: int = 10) -> CallSize:
    return CallSize(MODEL, TokenUsage(output_tokens=tokens), TokenUsage(input_tokens=3))


async def answered(channel: Channel, *messages: MessageUsage, tokens: int = 10) -> None:
    async with channel.call(size(tokens)) as call:
        for message in messages:
            call.on_start(message)
            call.on_usage(message)


@dataclass(slots=True)
class Caller:
    """Calls in a task of its own and stays until `answer`ed."""

    channel: Channel
    tokens: int = 10
    admitted: asyncio.Event = field(default_factory=asyncio.Event)
    _messages: asyncio.Queue[MessageUsage | None] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self._call())

    async def enters(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.admitted.wait()

    async def answer(self, message: MessageUsage | None = None) -> None:
        self._messages.put_nowait(message)
        await self.task

    async def _call(self) -> None:
        async with self.channel.call(size(self.tokens)) as call:
            self.admitted.set()
            async with asyncio.timeout(PATIENCE_S):
                message = await self._messages.get()
            if message is not None:
                call.on_usage(message)


async def waits(caller: Caller) -> bool:
    """Whether a caller is neither let through nor refused, once nothing else is to be done."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    return not (caller.admitted.is_set() or caller.task.done())


async def refusal_of(channel: Channel, tokens: int = 10) -> Refusal:
    with pytest.raises(CallRefused) as refused:
        await answered(channel, tokens=tokens)
    return refused.value.refusal
