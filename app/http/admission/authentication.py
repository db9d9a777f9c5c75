"""Who is calling: known from the headers alone, and asked once for each request."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from app.bootstrap.services import Services
from app.errors import Unauthenticated
from app.http.admission.limits import limits_of
from app.http.browser import COOKIE, SAFE_METHODS, ForeignOrigin, sender_of, session_token
from app.principal import Principal, Scope

_bearer = HTTPBearer(auto_error=False, description="An API key, `rt_…`.")
_cookie = APIKeyCookie(
    name=COOKIE,
    auto_error=False,
    description="What `POST /v1/browser-session` sets; by https its name begins with `__Host-`.",
)
_PRINCIPAL: Final = "principal"
_T = TypeVar("_T")


class CallerWith:
    """The dependency of routes that need a caller with certain scopes."""

    def __init__(self, *scopes: Scope) -> None:
        self.scopes = scopes

    async def __call__(
        self,
        request: Request,
        _key: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
        _session: Annotated[str | None, Depends(_cookie)],
    ) -> Principal:
        """Authenticate the caller, who was asked already; the parameters are for the OpenAPI document."""
        principal = await principal_of(request)
        for scope in self.scopes:
            principal.require(scope)
        return principal


async def principal_of(request: Request) -> Principal:
    """The caller by API key or, without one, by session cookie.

    Raises `Unauthenticated`, `TooManyFailures`, `ForeignOrigin`.
    """
    state = request.scope.setdefault("state", {})
    if _PRINCIPAL not in state:
        state[_PRINCIPAL] = await _authenticated(request)
    found: Principal = state[_PRINCIPAL]
    return found


async def counted(request: Request, presented: str, look_up: Callable[[str], Awaitable[_T]]) -> _T:
    """What a key or a session opens; raises `TooManyFailures` for addresses that guess."""
    failed_keys = limits_of(request).failed_keys
    address = request.client.host if request.client else None
    key_hash = hashlib.sha256(presented.encode()).digest()
    failed_keys.require_room(address, key_hash)
    try:
        found = await look_up(presented)
    except Unauthenticated:
        failed_keys.note(address, key_hash, good=False)
        raise
    failed_keys.note(address, key_hash, good=True)
    return found


async def _authenticated(request: Request) -> Principal:
    services: Services = request.app.state.services
    if (presented := await _bearer(request)) is not None:
        return await counted(request, presented.credentials, services.accounts.authenticate)
    if (token := session_token(request, allow_http=services.settings.allow_http_sign_in)) is None:
        raise Unauthenticated
    _require_own_page(request, services.settings.cors_origins)
    return await counted(request, token, services.browser_sessions.authenticate)


def _require_own_page(request: Request, origins: tuple[str, ...]) -> None:
    """A browser sends the cookie along with whatever a page asks for, also a page of somebody else's."""
    if request.method not in SAFE_METHODS and sender_of(request, origins) != "ours":
        raise ForeignOrigin
