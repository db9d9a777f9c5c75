"""An agent, the gateway, and a provider behind it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import httpx

from app.errors import Unavailable
from app.gateway.answer_usage import MessageUsage
from app.gateway.call import CallCost, MeteringHooks, Refusal
from app.gateway.channel import Channel, ChannelLimits
from app.gateway.proxy import Gateway
from app.gateway.upstream import Upstream
from app.simulator.script import Responder, in_turn
from app.simulator.server import Simulator
from tests.patience import PATIENCE_S

MODEL = "claude-haiku-5-5"
PROVIDER_KEY = "sk-of-the-provider"
MESSAGE_REQUEST: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello there"}],
}
STREAMED = {**MESSAGE_REQUEST, "stream": True}
WORDS = "one two three four five"
FIRST_DELTA, MESSAGE_STOP = 3, 10
"""Where they are among the events of a reply that says WORDS."""
AGENTS = {"authorization": "Bearer agents-own", "x-api-key": "agents-own", "anthropic-version": "2023-06-01"}


@dataclass(slots=True)
class Noted:
    """What billing was told, in order."""

    opened: list[MessageUsage] = field(default_factory=list)
    grown: list[MessageUsage] = field(default_factory=list)
    """What had arrived, each time before the agent could read it."""
    closed: list[MessageUsage] = field(default_factory=list)
    sent: list[MessageUsage] = field(default_factory=list)
    """Prompts that the provider had been given; what became of them follows."""
    voided: list[MessageUsage] = field(default_factory=list)
    refusal: Refusal | None = None
    full: bool = False
    """Nothing can be noted that nobody has read yet."""

    def open(self, message: MessageUsage, instead_of: MessageUsage | None) -> None:
        if message.message_id.startswith("unanswered-"):
            assert instead_of is None
            self.sent.append(message)
            return
        assert instead_of in self.sent
        if self.full:
            raise Unavailable
        self.opened.append(message)

    def grow(self, message: MessageUsage) -> None:
        if self.full:
            raise Unavailable
        self.grown.append(message)

    async def check_credit(self, _under_way: CallCost) -> Refusal | None:
        return self.refusal

    @property
    def last(self) -> MessageUsage:
        return self.closed[-1]

    def hooks(self) -> MeteringHooks:
        return MeteringHooks(
            cost_of=lambda message: Decimal(message.usage.total_tokens),
            most_cost_of=lambda _model, usage, _speed: Decimal(usage.total_tokens),
            check_credit=self.check_credit,
            on_start=self.open,
            on_progress=self.grow,
            on_usage=self.closed.append,
            on_void=self.voided.append,
        )


@dataclass(frozen=True, slots=True)
class Seam:
    """An agent, the gateway, and the simulator behind it."""

    agent: httpx.AsyncClient
    simulator: Simulator
    gateway: Gateway
    noted: Noted
    channel: Channel

    def channel_with(self, **limits: Any) -> Channel:
        deadline = asyncio.get_running_loop().time() + 60
        return self.gateway.open_channel("run-1", ChannelLimits(deadline, **limits), self.noted.hooks())

    async def send_message(self, body: dict[str, Any] = STREAMED, **options: Any) -> httpx.Response:
        return await self.agent.post(f"{self.channel.url}/v1/messages", json=body, headers=AGENTS, **options)

    def stream(self, body: dict[str, Any] = STREAMED) -> Any:
        return self.agent.stream("POST", f"{self.channel.url}/v1/messages", json=body, headers=AGENTS)


@asynccontextmanager
async def gateway_to(url: str, simulator: Simulator | None = None) -> AsyncIterator[Seam]:
    async with (
        Upstream(base_url=url, api_key=PROVIDER_KEY) as provider,
        Gateway(provider) as gateway,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as agent,
    ):
        noted = Noted()
        deadline = asyncio.get_running_loop().time() + 60
        channel = gateway.open_channel("run-1", ChannelLimits(deadline), noted.hooks())
        yield Seam(agent, simulator or Simulator(in_turn()), gateway, noted, channel)


@asynccontextmanager
async def the_seam(responder: Responder, **options: Any) -> AsyncIterator[Seam]:
    async with Simulator(responder, **options) as simulator, gateway_to(simulator.url, simulator) as seam:
        yield seam


async def read_into(read: bytearray, chunks: AsyncIterator[bytes]) -> None:
    async for chunk in chunks:
        read += chunk


async def read_to(response: httpx.Response, event: str) -> None:
    """Read on until an event has come."""
    read = b""
    async for chunk in response.aiter_raw():
        read += chunk
        if f"event: {event}\n".encode() in read:
            return
