"""ForeignErrors: answers the paths of a wire with that wire's own form of errors."""

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, TypeAlias

from app.http.middleware import REQUEST_ID, AsgiApp, Message, Middleware, Receive, Scope, Send
from app.http.problems import MEDIA_TYPE

Headers: TypeAlias = list[tuple[bytes, bytes]]


class ForeignError(NamedTuple):
    """An error as clients of a wire read it."""

    status: int
    body: dict[str, Any]
    headers: Headers
    """Besides those of the problem document."""


class ErrorForm(ABC):
    """What clients of a wire send and read differently from our own."""

    paths: ClassVar[tuple[str, ...]]
    """What the wire's paths begin with, also those that no route has."""
    request_id: ClassVar[bytes | None] = None
    """The header in which they read the id of the request, if it is not ours."""

    def read_headers(self, headers: Headers) -> Headers:
        """A request's headers as our own clients send them."""
        return headers

    @abstractmethod
    def translate(self, problem: dict[str, Any], headers: dict[bytes, bytes]) -> ForeignError:
        """The error for a problem document, whose response has these headers; its `instance` is the path."""


class ErrorForms:
    """Those of all wires."""

    def __init__(self, *forms: ErrorForm) -> None:
        """The first that has a path is that of it."""
        self._forms = [(tuple(f"{path}/" for path in form.paths), form) for form in forms]

    def of(self, path: str) -> ErrorForm | None:
        """None for our own wires."""
        asked = f"{path}/"
        return next((form for begins, form in self._forms if asked.startswith(begins)), None)

    def refusal(self, path: str, problem: dict[str, Any]) -> ForeignError | None:
        """The error for a request that the server refuses before the app has it."""
        form = self.of(path)
        return None if form is None else form.translate({**problem, "instance": path}, {})


class ForeignErrors(Middleware):
    """Rewrites problem documents of a wire's paths, wherever they were made."""

    def __init__(self, app: AsgiApp, forms: ErrorForms) -> None:
        super().__init__(app)
        self._forms = forms

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (form := self._forms.of(scope["path"])) is None:
            await self.app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def send_rewritten(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                _add_request_id(form, scope, message)
                if _is_problem(message):
                    start = message
                    return
            if start is None:
                await send(message)
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                problem = {**json.loads(body), "instance": scope["path"]}
                head, content = _rewritten(form, start, problem)
                await send(head)
                await send({"type": "http.response.body", "body": content})

        # In the same scope: the request log reads the route from it.
        scope["headers"] = form.read_headers(scope["headers"])
        await self.app(scope, receive, send_rewritten)


def _add_request_id(form: ErrorForm, scope: Scope, start: Message) -> None:
    headers = start.get("headers", [])
    if form.request_id is not None and form.request_id not in dict(headers):
        start["headers"] = [*headers, (form.request_id, scope["state"][REQUEST_ID].encode())]


def _rewritten(form: ErrorForm, start: Message, problem: dict[str, Any]) -> tuple[Message, bytes]:
    error = form.translate(problem, dict(start["headers"]))
    content = json.dumps(error.body, separators=(",", ":")).encode()
    replaced = {b"content-type": b"application/json", b"content-length": str(len(content)).encode()}
    headers = [(name, replaced.get(name, value)) for name, value in start["headers"]]
    return {**start, "status": error.status, "headers": [*headers, *error.headers]}, content


def _is_problem(start: Message) -> bool:
    return (b"content-type", MEDIA_TYPE.encode()) in start.get("headers", [])
