"""ForeignErrors: answers the paths of a wire with that wire's own form of errors."""

import json
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, TypeAlias

from app.http.middleware import Message, Middleware, Receive, Scope, Send
from app.http.problems import MEDIA_TYPE

Headers: TypeAlias = list[tuple[bytes, bytes]]


class ForeignError(NamedTuple):
    """An error as clients of a wire read it."""

    status: int
    body: dict[str, Any]
    headers: Headers
    """Besides those of the problem document."""


class ForeignErrors(Middleware):
    """Rewrites problem documents of a wire's paths, wherever they were made."""

    path: ClassVar[str]
    """What the wire's paths begin with."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not f"{scope['path']}/".startswith(f"{self.path}/"):
            await self.app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def send_rewritten(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and _is_problem(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    problem = {**json.loads(body), "instance": scope["path"]}
                    head, content = self._rewritten(start, problem)
                    await send(head)
                    await send({"type": "http.response.body", "body": content})

        # In the same scope: the request log reads the route from it.
        scope["headers"] = self.read_headers(scope["headers"])
        await self.app(scope, receive, send_rewritten)

    def read_headers(self, headers: Headers) -> Headers:
        """A request's headers as our own clients send them."""
        return headers

    @abstractmethod
    def translate(self, problem: dict[str, Any], headers: dict[bytes, bytes]) -> ForeignError:
        """The error for a problem document, whose response has these headers; its `instance` is the path."""

    def _rewritten(self, start: Message, problem: dict[str, Any]) -> tuple[Message, bytes]:
        error = self.translate(problem, dict(start["headers"]))
        content = json.dumps(error.body, separators=(",", ":")).encode()
        replaced = {b"content-type": b"application/json", b"content-length": str(len(content)).encode()}
        headers = [(name, replaced.get(name, value)) for name, value in start["headers"]]
        return {**start, "status": error.status, "headers": [*headers, *error.headers]}, content


def _is_problem(start: Message) -> bool:
    return (b"content-type", MEDIA_TYPE.encode()) in start.get("headers", [])
