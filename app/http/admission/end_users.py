"""What tokens of end users open: every route that is not listed here is closed to them."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from fastapi import Request

from app.bootstrap.services import Services
from app.errors import Forbidden
from app.ids import RUN_ID_PATTERN, STATE_KEY_PATTERN, RunId, RunKey
from app.requests.principal import Principal
from app.runs.commands.service import RunNotFound
from app.runs.conversations.service import ConversationNotFound


class ClosedToEndUsers(Forbidden):
    """This is not open to tokens of end users; use an API key."""

    code = "closed_to_end_users"


async def _require_run(services: Services, caller: Principal, names: Mapping[str, str]) -> None:
    if not re.fullmatch(RUN_ID_PATTERN, names["runId"]):
        raise RunNotFound
    run = await services.runs.get(RunKey(caller.account_id, RunId(names["runId"])))
    if run.labels.end_user != caller.end_user:
        raise RunNotFound


async def _require_response(services: Services, caller: Principal, names: Mapping[str, str]) -> None:
    """Its id is made of that of its run, and a position."""
    run_id, _, _ = names["responseId"].removeprefix("resp_").partition("~")
    await _require_run(services, caller, {"runId": run_id})


async def _require_conversation(services: Services, caller: Principal, names: Mapping[str, str]) -> None:
    state_key = next(
        names[each] for each in ("stateKey", "threadId", "chatId", "conversationId") if each in names
    )
    if not re.fullmatch(STATE_KEY_PATTERN, state_key):
        raise ConversationNotFound
    await services.conversations.require_reading(caller, state_key)


async def _by_route(_services: Services, _caller: Principal, _names: Mapping[str, str]) -> None:
    """The route filters what it lists, and `require_reading` refuses what its body names."""


_RESPONSE: Final = "/openai/v1/responses/{responseId}"
_OF_OPENAI: Final = "/openai/v1/conversations/{conversationId}"
_RUN: Final = "/v1/runs/{runId}"
_CONVERSATION: Final = "/v1/sessions/{stateKey}"
_AG_UI: Final = "/v1/ag-ui/{graphId}"
_AI_SDK: Final = "/v1/ai-sdk/{graphId}"

OPEN_TO_END_USERS: Final[
    Mapping[str, Callable[[Services, Principal, Mapping[str, str]], Awaitable[None]]]
] = {
    "POST /v1/runs": _by_route,
    "POST /v1/runs/stream": _by_route,
    "POST /v1/runs/wait": _by_route,
    "GET /v1/runs": _by_route,
    f"GET {_RUN}": _require_run,
    f"DELETE {_RUN}": _require_run,
    f"PATCH {_RUN}": _require_run,
    f"GET {_RUN}/events": _require_run,
    f"GET {_RUN}/receipts": _require_run,
    f"GET {_RUN}/files": _require_run,
    f"GET {_RUN}/files/{{path:path}}": _require_run,
    f"GET {_RUN}/archive": _require_run,
    f"POST {_RUN}/messages": _require_run,
    f"POST {_RUN}/interrupt": _require_run,
    f"POST {_RUN}/cancel": _require_run,
    f"POST {_RUN}/permissions/{{requestId}}": _require_run,
    f"POST {_RUN}/tool-results/{{toolCallId}}": _require_run,
    f"POST {_RUN}/questions/{{requestId}}": _require_run,
    f"PUT {_RUN}/feedback": _require_run,
    "GET /v1/approvals": _by_route,
    "GET /v1/sessions": _by_route,
    f"GET {_CONVERSATION}": _require_conversation,
    f"PATCH {_CONVERSATION}": _require_conversation,
    f"DELETE {_CONVERSATION}": _require_conversation,
    f"GET {_CONVERSATION}/export": _require_conversation,
    f"GET {_CONVERSATION}/shares": _require_conversation,
    f"POST {_CONVERSATION}/shares": _require_conversation,
    f"DELETE {_CONVERSATION}/shares/{{shareId}}": _require_conversation,
    f"GET {_CONVERSATION}/branches": _require_conversation,
    f"PUT {_CONVERSATION}/branch": _require_conversation,
    f"GET {_CONVERSATION}/workspace": _require_conversation,
    f"GET {_CONVERSATION}/grants": _require_conversation,
    f"DELETE {_CONVERSATION}/grants/{{grantId}}": _require_conversation,
    "POST /v1/generate/text": _by_route,
    "POST /v1/generate/object": _by_route,
    f"POST {_AG_UI}": _by_route,
    f"GET {_AG_UI}/threads": _by_route,
    f"GET {_AG_UI}/threads/{{threadId}}/messages": _require_conversation,
    f"POST {_AI_SDK}/chat": _by_route,
    f"GET {_AI_SDK}/chats": _by_route,
    f"GET {_AI_SDK}/chat/{{chatId}}/messages": _require_conversation,
    # A new chat has no conversation yet, which is no error here.
    f"GET {_AI_SDK}/chat/{{chatId}}/stream": _by_route,
    f"POST {_AI_SDK}/chat/{{chatId}}/stop": _by_route,
    "POST /openai/v1/chat/completions": _by_route,
    "POST /mcp": _by_route,
    "GET /mcp": _by_route,
    "GET /v1/receipts": _by_route,
    "GET /v1/usage": _by_route,
    # The graphs that the token may run, which are about no person.
    "GET /v1/graphs": _by_route,
    "POST /openai/v1/responses": _by_route,
    f"GET {_RESPONSE}": _require_response,
    f"GET {_RESPONSE}/input_items": _require_response,
    f"POST {_RESPONSE}/cancel": _require_response,
    f"DELETE {_RESPONSE}": _require_response,
    f"GET {_OF_OPENAI}": _require_conversation,
    f"GET {_OF_OPENAI}/items": _require_conversation,
    f"GET {_OF_OPENAI}/items/{{itemId}}": _require_conversation,
    f"DELETE {_OF_OPENAI}": _require_conversation,
    "GET /openai/v1/models": _by_route,
    "GET /openai/v1/models/{model}": _by_route,
}
"""What finds out whether that which the path names is the end user's."""


def require_open(request: Request, caller: Principal) -> None:
    """Raise `ClosedToEndUsers` for a token whose route is not open."""
    if caller.end_user is not None and _operation(request) not in OPEN_TO_END_USERS:
        raise ClosedToEndUsers


async def require_own(request: Request, caller: Principal) -> None:
    """Raise `RunNotFound` or `ConversationNotFound` for what is not the end user's of a token."""
    if caller.end_user is not None:
        require = OPEN_TO_END_USERS[_operation(request)]
        await require(request.app.state.services, caller, request.path_params)


def _operation(request: Request) -> str:
    return f"{request.method} {request.scope['route'].path}"
