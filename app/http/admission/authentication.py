"""Authentication by request headers: an API key, a token or a session cookie, checked once per request."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from app.auth.device_logins.service import is_access_token
from app.auth.keys import is_key
from app.bootstrap.services import Services
from app.errors import Unauthenticated
from app.http.admission.end_users import require_open
from app.http.admission.limits import request_limits
from app.http.admission.request_origin import SAFE_METHODS, ForeignOrigin, request_origin
from app.http.admission.session_cookie import SESSION, session_token
from app.platform.logs.context import note
from app.requests.principal import Principal, Scope

_bearer = HTTPBearer(
    auto_error=False, description="An API key, `rt_…`, or a JWT of an issuer that the server trusts."
)
_cookie = APIKeyCookie(
    name=SESSION.name,
    auto_error=False,
    description="Set by `POST /v1/browser-session`; over https its name begins with `__Host-`.",
)
_PRINCIPAL: Final = "principal"
_T = TypeVar("_T")


class RequireScopes:
    """Dependency of routes whose caller needs certain scopes."""

    def __init__(self, *scopes: Scope) -> None:
        self.scopes = scopes

    async def __call__(
        self,
        request: Request,
        _key: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
        _session: Annotated[str | None, Depends(_cookie)],
    ) -> Principal:
        """Return the caller; the unused parameters put the security schemes into the OpenAPI document."""
        principal = await request_principal(request)
        for scope in self.scopes:
            principal.require(scope)
        return principal


async def request_principal(request: Request) -> Principal:
    """Authenticate by API key or token or, without one, by session cookie; the result is kept on the request.

    Raises `Unauthenticated`, `TooManyFailures`, `ForeignOrigin`, `ClosedToEndUsers`.
    """
    found: Principal
    state = request.scope.setdefault("state", {})
    if _PRINCIPAL not in state:
        found = await _authenticate(request)
        note(account_id=str(found.account_id), key_id=str(found.api_key_id))
        require_open(request, found)
        state[_PRINCIPAL] = found
    found = state[_PRINCIPAL]
    return found


async def authenticate_limited(
    request: Request, credential: str, authenticate: Callable[[str], Awaitable[_T]]
) -> _T:
    """Authenticate a key or token; raises `TooManyFailures` for addresses that fail too often."""
    failed_keys = request_limits(request).failed_keys
    address = request.client.host if request.client else None
    key_hash = hashlib.sha256(credential.encode()).digest()
    failed_keys.check(address, key_hash)
    try:
        found = await authenticate(credential)
    except Unauthenticated:
        failed_keys.record(address, key_hash, valid=False)
        raise
    failed_keys.record(address, key_hash, valid=True)
    return found


async def _authenticate(request: Request) -> Principal:
    services: Services = request.app.state.services
    if (bearer := await _bearer(request)) is not None:
        if is_key(bearer.credentials):
            return await authenticate_limited(request, bearer.credentials, services.accounts.authenticate)
        if is_access_token(bearer.credentials):
            logins = services.device_logins
            return await authenticate_limited(request, bearer.credentials, logins.authenticate)
        # Nothing is read for a token before its signature was checked, so no guesses are counted.
        return await services.tokens.authenticate(bearer.credentials)
    if (token := session_token(request, allow_http=services.settings.allow_http_sign_in)) is None:
        raise Unauthenticated
    _require_own_origin(request, services.settings.cors_origins)
    return await authenticate_limited(request, token, services.browser_sessions.authenticate)


def _require_own_origin(request: Request, origins: tuple[str, ...]) -> None:
    """Prevent CSRF: browsers attach the cookie to requests of any site's pages."""
    if request.method not in SAFE_METHODS and request_origin(request, origins) != "ours":
        raise ForeignOrigin
