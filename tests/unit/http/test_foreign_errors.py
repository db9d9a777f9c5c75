"""Each path has its wire's form of errors, whether a route has it, and the app its request, or not."""

from typing import Any

import pytest

from app.http.app import ERROR_FORMS
from app.http.foreign_errors import ForeignErrors
from app.http.middleware import Message, Receive, RequestIds, Scope, Send
from app.http.problems import problem_response

PROBLEM = {"status": 414, "code": "uri_too_long", "detail": "The request's URL is too long."}
OF_OPENAI = {
    "message": PROBLEM["detail"],
    "type": "invalid_request_error",
    "param": None,
    "code": "uri_too_long",
}
OF_RPC = {"code": -32600, "message": PROBLEM["detail"], "data": {"code": "uri_too_long"}}
OPENAI = {"error": OF_OPENAI}
ANTHROPIC = {"type": "error", "error": {"type": "invalid_request_error", "message": PROBLEM["detail"]}}
OAUTH = {"error": "invalid_request", "error_description": PROBLEM["detail"]}
RPC = {"jsonrpc": "2.0", "id": None, "error": OF_RPC}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/openai/v1/chat/completions", OPENAI),
        ("/openai/v1", OPENAI),
        ("/openai/nothing", OPENAI),
        ("/anthropic/v1/messages", ANTHROPIC),
        ("/anthropic", ANTHROPIC),
        ("/anthropic/oauth/token", OAUTH),
        ("/anthropic/.well-known/oauth-authorization-server", OAUTH),
        ("/managed-agents/v1/sessions", ANTHROPIC),
        ("/managed-agents/v2", ANTHROPIC),
        ("/mcp", RPC),
        ("/mcp/x", RPC),
        ("/v1/runs", None),
        ("/openaix", None),
        ("", None),
    ],
)
def test_a_path_has_the_errors_of_its_wire(path: str, body: Any) -> None:
    refusal = ERROR_FORMS.refusal(path, PROBLEM)

    assert (refusal and refusal.body) == body
    assert refusal is None or refusal.status == 414


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    """An error, or what a provider has answered."""
    if scope["path"].endswith("/messages"):
        passed = [(b"request-id", b"req_1")]
        await send({"type": "http.response.start", "status": 200, "headers": passed})
        await send({"type": "http.response.body", "body": b"{}"})
    else:
        await problem_response(404, "not_found", "There is no resource at this path.")(scope, receive, send)


@pytest.mark.parametrize(
    ("path", "request_id"),
    [
        ("/anthropic/nothing", [b"ours"]),
        ("/anthropic/v1/messages", [b"req_1"]),
        ("/managed-agents/v1/nothing", [b"ours"]),
        ("/openai/nothing", []),
        ("/v1/nothing", []),
    ],
)
async def test_clients_find_the_id_of_a_request_where_they_look(path: str, request_id: list[bytes]) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "path": path, "method": "GET", "headers": [(b"x-request-id", b"ours")]}
    await RequestIds(ForeignErrors(answers, ERROR_FORMS))(scope, receive, send)

    assert [value for name, value in sent[0]["headers"] if name == b"request-id"] == request_id
