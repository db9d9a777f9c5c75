"""Relay: this process's connections to the relay."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from redis.exceptions import RedisError

from app.platform.background import forever
from app.streams.relay.address import MessageLost, RelayAddress, RelayNotUsable, problem_of
from app.streams.relay.connection import EventLogUnavailable, Outage, RelayConnection
from app.streams.relay.nodes import Nodes, hash_tags, part_of
from app.streams.relay.subscriptions import Subscriptions


@dataclass(frozen=True, slots=True)
class RelayPart:
    """Commands and subscriptions."""

    connection: RelayConnection
    subscriptions: Subscriptions


class Relay:
    """A server, or parts of a cluster, shared by everything in this process that uses the relay."""

    def __init__(self, address: RelayAddress, nodes: Nodes, *, timeout_s: float, check_s: float) -> None:
        self.check_s = check_s
        self.parts: list[RelayPart] = []
        self._address = address
        self._nodes = nodes
        self._timeout_s = timeout_s
        self._outage = Outage()
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls, url: str, *, ca_file: Path | None = None, timeout_s: float = 5.0, check_s: float = 1.0
    ) -> Self:
        """Connect and use once what is used later; after each outage it connects by itself.

        `ca_file`: certificate authorities besides the usual ones; `timeout_s`: how long a response may take;
        `check_s`: how often an idle connection is checked.
        Raises `RelayNotUsable`, and `ValueError` for a URL that is none.
        """
        address = RelayAddress.parse(url, ca_file=ca_file)
        relay = cls(address, Nodes(address), timeout_s=timeout_s, check_s=check_s)
        try:
            async with asyncio.timeout(timeout_s):
                await relay._connect()
            await relay._require_messages()
        except BaseException as error:
            await relay.aclose()
            cause = error.__cause__ if isinstance(error, EventLogUnavailable) else error
            if isinstance(cause, RedisError | OSError):
                raise RelayNotUsable.of(str(address), cause) from error
            raise
        return relay

    def __str__(self) -> str:
        """Where it is, without user and password."""
        return str(self._address)

    @property
    def problem(self) -> str | None:
        """Why it does not carry everything now; None if it does, as far as its latest use has shown."""
        return None if self._outage.error is None else problem_of(self._outage.error)

    def part(self, name: str) -> RelayPart:
        return self.parts[part_of(name, len(self.parts))]

    async def ping(self) -> None:
        """Raise `EventLogUnavailable` with the reason unless it answers and carried what was sent last."""
        try:
            await asyncio.gather(*(part.connection.ping() for part in self.parts))
        except EventLogUnavailable as error:
            raise EventLogUnavailable(problem_of(error.__cause__ or error)) from error
        if self.problem is not None:
            raise EventLogUnavailable(self.problem)

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for part in self.parts:
            await part.connection.aclose()

    async def _connect(self) -> None:
        for tag in hash_tags() if await self._nodes.is_cluster() else [""]:
            options = self._nodes.options(tag)
            connection = RelayConnection(options, self._outage, tag=tag, timeout_s=self._timeout_s)
            part = RelayPart(connection, Subscriptions(options, connection, check_s=self.check_s))
            self.parts.append(part)
            self._tasks.add(asyncio.create_task(forever(part.subscriptions.receive, 0, name="relay")))
        await asyncio.gather(*(part.connection.try_commands() for part in self.parts))

    async def _require_messages(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.gather(*(part.subscriptions.carried.wait() for part in self.parts))
        except TimeoutError:
            raise (self._outage.error or MessageLost()) from None
