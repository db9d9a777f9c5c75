"""Browser sessions: a browser exchanges an API key for a cookie that scripts cannot read."""

from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from app.auth.browser_sessions import LIFETIME, SessionEnded
from app.auth.records import BrowserSession
from app.auth.tokens.issuer_keys import IssuerUnavailable
from app.bootstrap.services import Services
from app.http.admission.authentication import authenticate_limited
from app.http.admission.checks import BodyLimit, CheckedRoute
from app.http.admission.limits import request_limits
from app.http.admission.request_origin import ForeignOrigin, request_origin
from app.http.admission.session_cookie import SESSION, is_secure, require_secure_cookie, session_token
from app.http.api.browser_session.schemas import BrowserSessionResponse, SignedOutResponse, SignIn
from app.http.dependencies import ServicesDep

router = APIRouter(route_class=CheckedRoute, prefix="/v1/browser-session", tags=["browsers"])

_SIGN_IN_BYTES = 4096
"""Small, because the sender is not authenticated yet."""

_SIGNED_OUT: dict[int | str, dict[str, Any]] = {
    200: {"model": SignedOutResponse, "description": "A person has signed out here, and can at the issuer."}
}
_NONE: dict[int | str, dict[str, Any]] = {204: {"description": "There is no session."}}


@router.post("", dependencies=[Depends(BodyLimit(_SIGN_IN_BYTES))], summary="Sign in")
async def sign_in(
    body: SignIn, services: ServicesDep, request: Request, response: Response
) -> BrowserSessionResponse:
    """Set a session cookie that lasts seven days, or until its key is revoked."""
    if request_origin(request, services.settings.cors_origins) == "foreign":
        raise ForeignOrigin
    allow_http = services.settings.allow_http_sign_in
    require_secure_cookie(request, allow_http=allow_http)
    api_key = body.api_key.get_secret_value()
    owner = await authenticate_limited(request, api_key, services.accounts.authenticate)
    request_limits(request).count_write(owner.api_key_id)
    opened = await services.browser_sessions.open(api_key)
    if (replaced := session_token(request, allow_http=allow_http)) is not None:
        await services.browser_sessions.close(replaced)
    SESSION.set(response, opened.token, lifetime=LIFETIME, secure=is_secure(request))
    response.headers["Cache-Control"] = "no-store"
    return BrowserSessionResponse.model_validate(opened.session)


@router.get("", response_model=BrowserSessionResponse, responses=_NONE, summary="Who is signed in?")
async def who_is_signed_in(
    services: ServicesDep, request: Request, response: Response
) -> BrowserSessionResponse | Response:
    """The session of the cookie; 204 if there is none or it has ended."""
    response.headers["Cache-Control"] = "no-store"
    token = session_token(request, allow_http=services.settings.allow_http_sign_in)
    try:
        if token is not None:
            session = await authenticate_limited(request, token, services.browser_sessions.find)
            return BrowserSessionResponse.model_validate(session)
    except SessionEnded:
        pass
    no_session = Response(status_code=204, headers={"Cache-Control": "no-store"})
    if token is not None:
        SESSION.delete(no_session)
    return no_session


@router.delete("", status_code=204, responses=_SIGNED_OUT, summary="Sign out")
async def sign_out(services: ServicesDep, request: Request) -> Response:
    """End the session; without one, do nothing.

    For a person, the answer names where the issuer signs them out, if it does: let the browser go there.
    """
    continue_at = None
    if (token := session_token(request, allow_http=services.settings.allow_http_sign_in)) is not None:
        if request_origin(request, services.settings.cors_origins) != "ours":
            raise ForeignOrigin
        with suppress(SessionEnded):
            session = await authenticate_limited(request, token, services.browser_sessions.find)
            await services.browser_sessions.close(token)
            continue_at = await _end_at_issuer(services, session)
    response = Response(status_code=204)
    if continue_at is not None:
        response = JSONResponse(SignedOutResponse(continue_at=continue_at).model_dump(by_alias=True))
    SESSION.delete(response)
    return response


async def _end_at_issuer(services: Services, session: BrowserSession) -> str | None:
    if session.person is None or services.person_sign_in is None:
        return None
    try:
        return await services.person_sign_in.address_of_end()
    except IssuerUnavailable:
        return None
