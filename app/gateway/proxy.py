"""Gateway: the metering proxy that agents call instead of the Messages API.

Bytes pass through unchanged and at once; of requests of our own agents, only the web tools are replaced
(`web/`). The usage of each response is parsed on the way, and recorded before the agent can read it; it also
decides how the response ends (`answer.py`).
"""

import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from functools import partial
from typing import NamedTuple, Self, TypeAlias

import structlog

from app.gateway.bodies import BodyRefused, HiddenDirectory, RequestBodies
from app.gateway.call import MeteringHooks
from app.gateway.channel import CallRefused, Channel, ChannelLimits
from app.gateway.client.request import ClientRequest
from app.gateway.error_responses import BODY_ERRORS, ENDED, REFUSED, TOO_LARGE, UNKNOWN, send_error
from app.gateway.estimate import CallSize, PromptTooLarge, size_of
from app.gateway.exchange import Exchange, while_connected
from app.gateway.upstream import COUNT_TOKENS, MESSAGES, Upstream
from app.gateway.web.tools import may_name_web_tools, with_web_tools
from app.platform.concurrency.offload import Offload
from app.platform.metrics.gateway import GatewayMetrics
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback

SendAnswer: TypeAlias = Callable[[Send, bytes], Awaitable[None]]
"""Answers a request with this body; may raise `BodyRefused`."""


class ChannelAddress(NamedTuple):
    """A channel's token, which is valid there only, and its URL; the channel may not be open yet."""

    token: str
    url: str


class Gateway:
    """`async with Gateway(...) as gateway:` listens on loopback."""

    def __init__(
        self,
        provider: Upstream,
        metrics: GatewayMetrics | None = None,
        *,
        hidden: HiddenDirectory | None = None,
    ) -> None:
        self._provider = provider
        self._metrics = metrics or GatewayMetrics()
        self._channels: dict[str, Channel] = {}
        self._answered: dict[str, SendAnswer] = {}
        """By token: what answers its calls in place of the provider."""
        self._bodies = RequestBodies(hidden=hidden)
        self._offload = Offload()
        self._url = ""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._url = await self._stack.enter_async_context(serve_on_loopback(self.handle))
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop listening."""
        await self._stack.aclose()

    @property
    def has_key(self) -> bool:
        """Whether there is a key to call the provider with."""
        return self._provider.has_key

    def new_address(self) -> ChannelAddress:
        """An address for a channel that is opened later."""
        token = secrets.token_urlsafe(24)
        return ChannelAddress(token, f"{self._url}/{token}")

    @contextmanager
    def answering(self, at: ChannelAddress, answer: SendAnswer) -> Iterator[None]:
        """Answer calls at this address without the provider; also while a channel is open there."""
        self._answered[at.token] = answer
        try:
            yield
        finally:
            del self._answered[at.token]

    def open_channel(
        self, run_id: str, limits: ChannelLimits, hooks: MeteringHooks, *, at: ChannelAddress | None = None
    ) -> Channel:
        """Open a channel for one run."""
        address = at or self.new_address()
        channel = Channel(run_id, address.token, address.url, limits, hooks)
        self._channels[address.token] = channel
        return channel

    async def close_channel(self, channel: Channel) -> None:
        """Close a run's channel: its token is invalid from now on."""
        self._channels.pop(channel.token, None)
        await channel.close()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request: an ASGI application. Path and token are checked before the body is read."""
        _, _, rest = scope["path"].partition("/")
        token, _, path = rest.partition("/")
        path = f"/{path}"
        if scope["method"] != "POST" or path not in {MESSAGES, COUNT_TOKENS}:
            await send_error(send, UNKNOWN)
        elif (answer := self._answered.get(token)) is not None and path == MESSAGES:
            await self._answer(answer, token, scope, receive, send)
        elif (channel := self._channels.get(token)) is None:
            await send_error(send, ENDED)
        else:
            try:
                async with self._bodies.reading(token, scope, receive) as body:
                    exchange = self._exchange(scope, send)
                    await while_connected(receive, self._forward(channel, path, body, exchange))
            except BodyRefused as refused:
                await send_error(send, BODY_ERRORS[refused.status])
            except PromptTooLarge:
                await send_error(send, TOO_LARGE)
            except CallRefused as refused:
                self._metrics.call_refused(refused.refusal)
                await send_error(send, ENDED if refused.refusal == "ended" else REFUSED)

    async def serve_client(
        self, channel: Channel, request: ClientRequest, receive: Receive, send: Send
    ) -> None:
        """Forward a request of a client's own agent as it is; raises `CallRefused`, `BodyRefused`."""
        exchange, path, body = self._exchange(request.scope, send), request.path, request.body
        with self._bodies.holding(channel.token, body), _log_fields(channel):
            try:
                await while_connected(receive, self._call(channel, request.size, path, body, exchange))
            except CallRefused as refused:
                self._metrics.call_refused(refused.refusal)
                raise

    async def count_for_client(
        self, owner: str, request: ClientRequest, receive: Receive, send: Send
    ) -> None:
        """Forward a request to count tokens, which costs nothing; raises `BodyRefused`."""
        with self._bodies.holding(owner, request.body):
            exchange = self._exchange(request.scope, send)
            await while_connected(receive, exchange.forward(request.path, request.body, call=None))

    def _exchange(self, scope: Scope, send: Send) -> Exchange:
        return Exchange(self._provider, scope, send, offload=self._offload, metrics=self._metrics)

    async def _answer(
        self, answer: SendAnswer, token: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            async with self._bodies.reading(token, scope, receive) as body:
                await answer(send, body)
        except BodyRefused as refused:
            await send_error(send, BODY_ERRORS[refused.status])

    async def _forward(self, channel: Channel, path: str, body: bytes, exchange: Exchange) -> None:
        with _log_fields(channel):
            if path == COUNT_TOKENS:
                await exchange.forward(path, body, call=None)
                return
            async with channel.web.granted(to_subagent=bool(exchange.agent)) as tools:
                if tools or may_name_web_tools(body):
                    body = await self._offload.run(partial(with_web_tools, body, tools), size=len(body))
                await self._call(channel, size_of(body), path, body, exchange)

    async def _call(
        self, channel: Channel, size: CallSize, path: str, body: bytes, exchange: Exchange
    ) -> None:
        count = partial(self._provider.count_prompt, body)
        async with channel.call(size, count) as call:
            await exchange.forward(path, body, call=call)


def _log_fields(channel: Channel) -> AbstractContextManager[object]:
    return structlog.contextvars.bound_contextvars(**{"run_id": channel.run_id, **channel.log_fields})
