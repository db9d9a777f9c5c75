"""Subscriptions: the channels that this process receives, all on one connection."""

import asyncio
from typing import Any, NoReturn, Protocol
from uuid import uuid4

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RelayDisconnected
from redis.exceptions import RedisError

from app.platform.background import LONGEST_BACKOFF_S, first_of
from app.streams.relay.address import MessageLost
from app.streams.relay.connection import EventLogUnavailable, RelayConnection

_CHANNELS_PER_COMMAND = 500
_FIRST_PAUSE_S = 0.05


class Subscriber(Protocol):
    """Receives the messages of a channel. Its methods must not raise."""

    def on_subscribed(self) -> None:
        """From now on every message is received; what was published before may have been missed."""
        ...

    def on_message(self, payload: bytes) -> None: ...


class Subscriptions:
    """Keeps its channels subscribed; after a connection loss it calls `on_subscribed` of each again."""

    def __init__(self, options: dict[str, Any], relay: RelayConnection, *, check_s: float) -> None:
        """A connection without a message for `check_s` is sent one, which has to arrive in time.

        `options`: of the connection; `relay` sends the message.
        """
        # Without a limit for reading: a channel may be silent for hours.
        self._pool = ConnectionPool(**options)
        self._relay = relay
        self._check_s = check_s
        self.carried = asyncio.Event()
        """A message has arrived."""
        self._probe = f"{relay.prefix}probe:{uuid4().hex}"
        self._unused = f"{self._probe}:unused".encode()
        self._subscribers: dict[bytes, Subscriber] = {self._probe.encode(): self}
        self._unsent: dict[bytes, None] = {}
        """The channels to subscribe, or to unsubscribe where there is no subscriber any more."""
        self._wake = asyncio.Event()
        self._received_at = 0.0
        self._pause_s = 0.0

    def subscribe(self, channel: str, subscriber: Subscriber) -> None:
        """Receive a channel; replaces its subscriber."""
        self._subscribers[channel.encode()] = subscriber
        self._send_later(channel)

    def unsubscribe(self, channel: str, subscriber: Subscriber) -> None:
        """Stop to receive a channel, unless another subscriber has replaced this one."""
        if self._subscribers.get(channel.encode()) is subscriber:
            del self._subscribers[channel.encode()]
            self._send_later(channel)

    async def receive(self) -> None:
        """Connect, and receive messages until the connection is lost."""
        await asyncio.sleep(self._pause_s)
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(self._relay.timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
            self._received_at = asyncio.get_running_loop().time()
            # One is unsubscribed, to notice here whether that is allowed.
            self._unsent = dict.fromkeys([*self._subscribers, self._unused])
            await first_of(self._read(connection), self._send(connection))
        except (RedisError, OSError) as error:
            # `TimeoutError` is an `OSError`.
            self._relay.failed("subscriptions", error)
            self._pause_s = min(max(self._pause_s * 2, _FIRST_PAUSE_S), LONGEST_BACKOFF_S)
        finally:
            await connection.disconnect(nowait=True)

    def on_subscribed(self) -> None:
        """Let a message be sent now: only what arrives shows that messages do."""
        self._received_at -= self._check_s
        self._wake.set()

    def on_message(self, payload: bytes) -> None:
        """The message that was sent has arrived."""

    async def _read(self, connection: AbstractConnection) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            response: Any = await connection.read_response()
            match response:
                case [b"message" | b"smessage", channel, payload]:
                    self._received_at = loop.time()
                    self._relay.succeeded("subscriptions")
                    self.carried.set()
                    if subscriber := self._subscribers.get(channel):
                        subscriber.on_message(payload)
                case [b"subscribe" | b"ssubscribe", channel, _]:
                    self._pause_s = 0.0
                    if subscriber := self._subscribers.get(channel):
                        subscriber.on_subscribed()
                case [b"sunsubscribe", channel, _] if channel == self._probe.encode():
                    # Not asked for: another node of the cluster serves the slot now.
                    raise RelayDisconnected

    async def _send(self, connection: AbstractConnection) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            while self._unsent:
                await self._send_some(connection)
            self._wake.clear()
            silent_s = loop.time() - self._received_at
            if silent_s >= self._check_s + self._relay.timeout_s:
                raise MessageLost
            if silent_s >= self._check_s:
                await self._send_probe()
            # Not `wait_for`: it would make a task each time.
            handle = loop.call_later(self._check_s, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                handle.cancel()

    async def _send_probe(self) -> None:
        try:
            await self._relay.publish(self._probe, b"")
        except EventLogUnavailable as error:
            self._relay.failed("messages", error)
        else:
            self._relay.succeeded("messages")

    async def _send_some(self, connection: AbstractConnection) -> None:
        channels = list(self._unsent)[:_CHANNELS_PER_COMMAND]
        for channel in channels:
            del self._unsent[channel]
        wanted = [channel for channel in channels if channel in self._subscribers]
        unwanted = [channel for channel in channels if channel not in self._subscribers]
        for command, names in ((self._relay.subscribes, wanted), (self._relay.unsubscribes, unwanted)):
            if names:
                await connection.send_command(command, *names, check_health=False)

    def _send_later(self, channel: str) -> None:
        self._unsent[channel.encode()] = None
        self._wake.set()
