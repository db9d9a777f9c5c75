"""ClientRelay: passes one signal of clients' own agents on to the operator's receiver."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

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


class _Export(NamedTuple):
    account: Hashable
    body: bytes


@dataclass(slots=True)
class ClientRelay:
    """Waits for the receiver, and lets no client wait; what waits when the server stops is lost."""

    read: ReadExport
    post: Post
    results: Counter[Result] = field(default_factory=Counter)
    """Exports of clients, since the start."""
    _waiting: deque[_Export] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _offload: Offload = field(default_factory=Offload)
    """Not the one of other requests: a client's telemetry delays no call of the model."""

    async def accept(
        self, body: bytes, media_type: str, attributes: Mapping[str, str], *, account: Hashable
    ) -> None:
        """Take an export with the attributes of its sender; raises `Invalid`."""
        read = partial(self.read, body, media_type, attributes)
        export = _Export(account, await self._offload.run(read, size=len(body)))
        of_account = sum(len(each.body) for each in self._waiting if each.account == account)
        of_all = sum(len(each.body) for each in self._waiting)
        size = len(export.body)
        if of_all + size > MAX_WAITING_BYTES or of_account + size > MAX_ACCOUNT_BYTES:
            self.results["dropped"] += 1
            return
        self._waiting.append(export)
        self._arrived.set()

    async def send(self) -> None:
        """Send what has arrived of one account, once there is something."""
        await self._arrived.wait()
        account = self._waiting[0].account
        # Of one account: a receiver may refuse all because of one.
        batch = list(takewhile(lambda each: each.account == account, self._waiting))
        result: Sent = "unreachable"
        try:
            # Messages of protobuf whose only field is a list become one when they are joined.
            result = await self.post(b"".join(each.body for each in batch))
        finally:
            self.results[result] += len(batch)
            for _ in batch:
                self._waiting.popleft()
            if not self._waiting:
                self._arrived.clear()
        if result == "unreachable":
            await asyncio.sleep(PAUSE_S)
