"""A lane, its billing and callers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from app.gateway.call import CallCost, ChannelHooks, Refusal
from app.gateway.channel import CallRefused, Channel, ChannelLimits
from app.gateway.estimate import CallSize
from app.gateway.wire import MessageUsage
from app.ids import MessageId
from app.usage import TokenUsage

MODEL = "claude-haiku-5-5"
SOON_S = 0.02
PATIENCE_S = 5.0
FAR_S = 60.0


@dataclass(slots=True)
class Billing:
    """What a lane asks and tells; a token costs a dollar."""

    objection: Refusal | None = None
    noted: list[tuple[str, str]] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)

    async def object(self, under_way: CallCost) -> Refusal | None:
        self.asked.append((int(under_way.most), int(under_way.least)))
        return self.objection

    def open(self, message: MessageUsage, instead_of: MessageUsage | None) -> None:
        what = message.message_id
        self.noted.append(
            ("opened", what if instead_of is None else f"{what} instead of {instead_of.message_id}")
        )

    def links(self, objection: Callable[[CallCost], Awaitable[Refusal | None]] | None = None) -> ChannelHooks:
        return ChannelHooks(
            cost_of=lambda _model, usage: Decimal(usage.total_tokens),
            objection=objection or self.object,
            opened=self.open,
            closed=lambda message: self.noted.append(("closed", message.message_id)),
            voided=lambda message: self.noted.append(("voided", message.message_id)),
        )


def a_lane(billing: Billing, **limits: Any) -> Channel:
    deadline = asyncio.get_running_loop().time() + FAR_S
    return Channel(
        "run-1", "token", "http://gateway/token", ChannelLimits(deadline, **limits), billing.links()
    )


def a_message(number: int = 1, tokens: int = 10, **fields: Any) -> MessageUsage:
    defaults = {"complete": True, "whole_blocks": 1}
    usage = TokenUsage(output_tokens=tokens)
    return MessageUsage(MessageId(f"msg_{number}"), MODEL, usage, **{**defaults, **fields})


def size(tokens: int = 10) -> CallSize:
    return CallSize(MODEL, TokenUsage(output_tokens=tokens), TokenUsage(input_tokens=3))


async def answered(lane: Channel, *messages: MessageUsage, tokens: int = 10) -> None:
    async with lane.call(size(tokens)) as call:
        for message in messages:
            call.opened(message)
            call.closed(message)


@dataclass(slots=True)
class Caller:
    """Calls in a task of its own and stays until `answer`ed."""

    lane: Channel
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
        async with self.lane.call(size(self.tokens)) as call:
            self.admitted.set()
            async with asyncio.timeout(PATIENCE_S):
                message = await self._messages.get()
            if message is not None:
                call.closed(message)


async def waits(caller: Caller) -> bool:
    """Whether a caller is neither let through nor refused for now."""
    await asyncio.sleep(SOON_S)
    return not (caller.admitted.is_set() or caller.task.done())


async def refusal_of(lane: Channel, tokens: int = 10) -> Refusal:
    with pytest.raises(CallRefused) as refused:
        await answered(lane, tokens=tokens)
    return refused.value.refusal
