"""A server of an account's own that webhooks lead to."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook as Signature

from app.platform.server.loopback import Receive, Scope, Send, read_body, serve_on_loopback


@dataclass(frozen=True, slots=True)
class Post:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The message's id."""
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        """What it tells."""
        told: dict[str, Any] = json.loads(self.body)
        return told

    def verified(self, secret: str) -> Any:
        """What it tells, if the library finds that it was signed with this secret."""
        return Signature(secret).verify(self.body, self.headers)


@dataclass(slots=True)
class Receiver:
    """Answers with these statuses in turn, with the last one for ever; holds answers until let go."""

    statuses: Sequence[int] = (204,)
    headers: dict[str, str] = field(default_factory=dict)
    url: str = ""
    posts: list[Post] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        post = Post(scope["path"], headers, await read_body(receive))
        status = self.statuses[min(len(self.posts), len(self.statuses) - 1)]
        self.posts.append(post)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.let_go.wait()
        finally:
            self.at_once -= 1
        pairs = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"not for us to read"})

    @property
    def ids(self) -> list[str]:
        """The ids of what came, in order."""
        return [post.id for post in self.posts]

    def events(self) -> list[str]:
        """The types of what came, in order."""
        return [post.event["type"] for post in self.posts]


@asynccontextmanager
async def a_receiver(
    *statuses: int, headers: dict[str, str] | None = None, holds: bool = False
) -> AsyncIterator[Receiver]:
    """Receive on loopback while the body runs."""
    receiver = Receiver(statuses or (204,), headers or {})
    if not holds:
        receiver.let_go.set()
    async with serve_on_loopback(receiver) as url:
        receiver.url = f"{url}/hook"
        try:
            yield receiver
        finally:
            receiver.let_go.set()
