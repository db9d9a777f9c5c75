"""What routes ask for: who is calling, and the services. None of them holds a database session."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

from fastapi import Depends, Header, Path, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from app.auth.accounts import Principal
from app.auth.keys import Scope
from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.browser import COOKIE, SAFE_METHODS, ForeignPage, sender_of, session_token
from app.http.middleware import REQUEST_ID
from app.http.strict_json import check_json
from app.ids import RUN_ID_PATTERN, RunId, RunKey
from app.runs.commands import RunNotFound

_bearer = HTTPBearer(auto_error=False, description="An API key, `rt_…`.")
_cookie = APIKeyCookie(
    name=COOKIE,
    auto_error=False,
    description="What `POST /v1/browser-session` sets; by https its name begins with `__Host-`.",
)
_MAX_KEY_CHARS = 255
_UNSUPPORTED = 415


def services(request: Request) -> Services:
    """Everything the routes speak to."""
    found: Services = request.app.state.services
    return found


ServicesDep: TypeAlias = Annotated[Services, Depends(services)]


def heartbeat_s(request: Request) -> float:
    """How long a stream may be silent."""
    found: float = request.app.state.heartbeat_s
    return found


HeartbeatS: TypeAlias = Annotated[float, Depends(heartbeat_s)]


def caller_with(scope: Scope) -> Callable[..., Awaitable[Principal]]:
    """Authenticate by API key or, without one, by session cookie; and require a scope."""

    async def authenticated(
        request: Request,
        services: ServicesDep,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
        _documented: Annotated[str | None, Depends(_cookie)],
    ) -> Principal:
        token = session_token(request)
        if credentials is not None or token is None:
            presented = credentials.credentials if credentials else None
            principal = await services.accounts.authenticate(presented)
        else:
            _require_own_page(request, services.settings.cors_origins)
            principal = await services.browser_sessions.authenticate(token)
        principal.require(scope)
        return principal

    return authenticated


def _require_own_page(request: Request, origins: tuple[str, ...]) -> None:
    """A browser sends the cookie along with whatever a page asks for, also a page of somebody else's."""
    if request.method not in SAFE_METHODS and sender_of(request, origins) != "ours":
        raise ForeignPage


Writer: TypeAlias = Annotated[Principal, Depends(caller_with("runs:write"))]
RunReader: TypeAlias = Annotated[Principal, Depends(caller_with("runs:read"))]
ReceiptReader: TypeAlias = Annotated[Principal, Depends(caller_with("receipts:read"))]
Admin: TypeAlias = Annotated[Principal, Depends(caller_with("admin"))]


RunIdParam: TypeAlias = Annotated[str, Path(alias="runId")]


def run_key(caller: Principal, run_id: str) -> RunKey:
    """The caller's run of this id; raises `RunNotFound` for what can be no id."""
    # What can be no id is not looked for: PostgreSQL would refuse some of it.
    if not re.fullmatch(RUN_ID_PATTERN, run_id):
        raise RunNotFound
    return RunKey(caller.account_id, RunId(run_id))


def request_id(request: Request) -> str:
    """The id of this request, given or made."""
    found: str = request.scope["state"][REQUEST_ID]
    return found


RequestId: TypeAlias = Annotated[str, Depends(request_id)]


def idempotency_key(
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="The same key does the same thing once; stands in for `runId`.",
        ),
    ] = None,
) -> str | None:
    """The `Idempotency-Key`; raises `Invalid` for one that is empty, too long or not plain text."""
    if idempotency_key is None:
        return None
    plain = idempotency_key.isascii() and idempotency_key.isprintable()
    if not (plain and 0 < len(idempotency_key) <= _MAX_KEY_CHARS):
        raise Invalid.field("Idempotency-Key", f"must be 1 to {_MAX_KEY_CHARS} printable characters")
    return idempotency_key


IdempotencyKey: TypeAlias = Annotated[str | None, Depends(idempotency_key)]


async def only_json(
    request: Request,
    content_type: Annotated[str, Header(include_in_schema=False)] = "",
) -> None:
    """Require `Content-Type: application/json` and unambiguous JSON.

    A page of another site can post plain text without asking; it cannot post JSON.
    """
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(_UNSUPPORTED)
    if body := await request.body():
        check_json(body)


def json_from(scope: Scope) -> Callable[..., Awaitable[None]]:
    """Require a caller with a scope, and JSON."""

    async def checked(
        request: Request,
        _caller: Annotated[Principal, Depends(caller_with(scope))],
        content_type: Annotated[str, Header(include_in_schema=False)] = "",
    ) -> None:
        await only_json(request, content_type)

    return checked


json_body = json_from("runs:write")


def last_event_id(
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="Resume after this event; wins over `after`."),
    ] = None,
) -> int | None:
    """The position a reconnecting reader has got to; raises `Invalid` for what is no position."""
    if last_event_id is None or last_event_id == "":
        return None
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10):  # noqa: PLR2004
        raise Invalid.field("Last-Event-ID", "must be the number of an event")
    return int(last_event_id)


LastEventId: TypeAlias = Annotated[int | None, Depends(last_event_id)]
