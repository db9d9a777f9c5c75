"""Errors in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

import json
from typing import Any, Final

from pydantic import BaseModel

from app.http.middleware import Message, Middleware, Receive, Scope, Send
from app.http.problems import MEDIA_TYPE

PATH: Final = "/openai/v1"

_SERVER_ERROR: Final = 500
_TYPES: Final = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_CODES: Final = {"unauthenticated": "invalid_api_key", "graph_not_found": "model_not_found"}
"""Codes that their clients know, by ours; all others are ours."""
_NEVER_AGAIN: Final = (b"x-should-retry", b"false")
"""Their clients send a request that failed with 5xx twice more, and each would be a run of its own."""


class ErrorDetails(BaseModel):
    """What went wrong; `param` is the field that it is about."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAiError(BaseModel):
    """An error."""

    error: ErrorDetails


def error_json(status: int, code: str, message: str, *, param: str | None = None) -> dict[str, Any]:
    """An error as their clients read it."""
    kind = _TYPES.get(status, "server_error" if status >= _SERVER_ERROR else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": _CODES.get(code, code)}}


class OpenAiErrors(Middleware):
    """Rewrites problem documents of this wire's paths, wherever they were made."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if not scope["path"].startswith(f"{PATH}/"):
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
                    head, content = _rewritten(start, json.loads(body))
                    await send(head)
                    await send({"type": "http.response.body", "body": content})

        await self.app(scope, receive, send_rewritten)


def _is_problem(start: Message) -> bool:
    return (b"content-type", MEDIA_TYPE.encode()) in start.get("headers", [])


def _rewritten(start: Message, problem: dict[str, Any]) -> tuple[Message, bytes]:
    param = next((error["field"] for error in problem.get("errors", ())), None)
    error = error_json(problem["status"], problem["code"], problem["detail"], param=param)
    content = json.dumps(error, separators=(",", ":")).encode()
    replaced = {b"content-type": b"application/json", b"content-length": str(len(content)).encode()}
    headers = [(name, replaced.get(name, value)) for name, value in start["headers"]]
    if "runId" in problem:
        headers.append(_NEVER_AGAIN)
    return {**start, "headers": [*headers, *_rate_limits(dict(headers))]}, content


def _rate_limits(headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """The limit of requests that was exceeded, in the headers that their clients read."""
    policy = headers.get(b"ratelimit-policy")
    if policy is None:
        return []
    limit = policy.partition(b"q=")[2]
    after = headers.get(b"retry-after", b"1") + b"s"
    return [
        (b"x-ratelimit-limit-requests", limit),
        (b"x-ratelimit-remaining-requests", b"0"),
        (b"x-ratelimit-reset-requests", after),
    ]
