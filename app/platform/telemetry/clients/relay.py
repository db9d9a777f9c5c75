"""ClientRelay: passes one signal of clients' own agents on to the operator's receiver."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

from app.platform.concurrency.offload import Offload

Signal: TypeAlias = Literal["metrics", "logs", "traces"]
Sent: TypeAlias = Literal["forwarded", "refused", "unreachable"]
Result: TypeAlias = Literal[Sent, "dropped"]
"""What became of an export; `dropped`: here, because too much waits."""
RESULTS: Final[tuple[Result, ...]] = (*get_args(Sent), "dropped")

ReadExport: TypeAlias = Callable[[bytes, str, Mapping[str, str]], bytes]
"""A body and its media type, and the attributes that its sender has, as protobuf; raises `Invalid`."""

Post: TypeAlias = Callable[[bytes], Awaitable[Sent]]
"""Sends protobuf to the receiver."""

MAX_WAITING_BYTES: Final = 4 * 2**20
MAX_ACCOUNT_BYTES: Final = MAX_WAITING_BYTES // 2
"""What waits of one account: the rest is for others."""

PAUSE_S: Final = 5.0
"""After a failure, in which what arrives waits; what has failed is not sent again."""


@dataclass(slots=True)
class _Exports:
    """Of one account. Messages of protobuf whose only field is a list become one when they are joined."""

    body: bytearray = field(default_factory=bytearray)
    count: int = 0


@dataclass(slots=True)
class ClientRelay:
    """Waits for the receiver, and lets no client wait; what waits when the server stops is lost."""

    read: ReadExport
    post: Post
    results: Counter[Result] = field(default_factory=Counter)
    """Exports of clients, since the start."""
    _waiting: dict[Hashable, _Exports] = field(default_factory=dict)
    """By account: a receiver may refuse all because of one."""
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _offload: Offload = field(default_factory=Offload)
    """Not the one of other requests: a client's telemetry delays no call of the model."""

    async def accept(
        self, body: bytes, media_type: str, attributes: Mapping[str, str], *, account: Hashable
    ) -> None:
        """Take an export with the attributes of its sender; raises `Invalid`."""
        read = partial(self.read, body, media_type, attributes)
        export = await self._offload.run(read, size=len(body))
        waiting = self._waiting.get(account) or _Exports()
        of_account = len(waiting.body) + len(export)
        of_all = sum(len(each.body) for each in self._waiting.values()) + len(export)
        if of_all > MAX_WAITING_BYTES or of_account > MAX_ACCOUNT_BYTES:
            self.results["dropped"] += 1
            return
        waiting.body += export
        waiting.count += 1
        self._waiting[account] = waiting
        self._arrived.set()

    async def send(self) -> None:
        """Send what has arrived of one account, once there is something."""
        await self._arrived.wait()
        account, waiting = next(iter(self._waiting.items()))
        body, count = bytes(waiting.body), waiting.count
        result: Sent = "unreachable"
        try:
            result = await self.post(body)
        finally:
            self.results[result] += count
            del self._waiting[account]
            if waiting.count > count:
                # What has arrived meanwhile waits behind other accounts.
                self._waiting[account] = _Exports(waiting.body[len(body) :], waiting.count - count)
            if not self._waiting:
                self._arrived.clear()
        if result == "unreachable":
            await asyncio.sleep(PAUSE_S)
