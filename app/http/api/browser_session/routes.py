"""Signing in: a browser trades an API key for a session it cannot read."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field, SecretStr

from app.auth.browser_sessions import LIFETIME, SessionEnded
from app.http.admission.authentication import counted
from app.http.admission.checks import AdmittedRoute, TakesBody
from app.http.admission.limits import limits_of
from app.http.browser import (
    ForeignOrigin,
    forget_session,
    keep_session,
    require_own_cookie,
    sender_of,
    session_token,
)
from app.http.dependencies import ServicesDep
from app.http.schemas import Moment, ResponseModel
from app.requests import InputModel

router = APIRouter(route_class=AdmittedRoute, prefix="/v1/browser-session", tags=["browsers"])

_SIGN_IN_BYTES = 4096
"""Nobody has shown a key yet."""

_NONE: dict[int | str, dict[str, Any]] = {204: {"description": "There is no session."}}


class SignIn(InputModel):
    """An API key; the session can do what it can."""

    api_key: Annotated[SecretStr, Field(max_length=300)]


class BrowserSessionResponse(ResponseModel):
    """Who is signed in."""

    account: str
    key_name: str | None
    key_prefix: str
    scopes: tuple[str, ...]
    expires_at: Moment


@router.post("", dependencies=[Depends(TakesBody(_SIGN_IN_BYTES))], summary="Sign in")
async def sign_in(
    body: SignIn, services: ServicesDep, request: Request, response: Response
) -> BrowserSessionResponse:
    """Set a session cookie that lasts seven days, or until its key is revoked."""
    if sender_of(request, services.settings.cors_origins) == "foreign":
        raise ForeignOrigin
    allow_http = services.settings.allow_http_sign_in
    require_own_cookie(request, allow_http=allow_http)
    api_key = body.api_key.get_secret_value()
    owner = await counted(request, api_key, services.accounts.authenticate)
    limits_of(request).take_write(owner.api_key_id)
    opened = await services.browser_sessions.open(api_key)
    if (replaced := session_token(request, allow_http=allow_http)) is not None:
        await services.browser_sessions.close(replaced)
    keep_session(request, response, opened.token, lifetime=LIFETIME)
    response.headers["Cache-Control"] = "no-store"
    return BrowserSessionResponse.model_validate(opened.session)


@router.get("", response_model=BrowserSessionResponse, responses=_NONE, summary="Who is signed in?")
async def who_is_signed_in(
    services: ServicesDep, request: Request, response: Response
) -> BrowserSessionResponse | Response:
    """The session of the cookie; 204 without one, or when it has ended."""
    response.headers["Cache-Control"] = "no-store"
    token = session_token(request, allow_http=services.settings.allow_http_sign_in)
    try:
        if token is not None:
            session = await counted(request, token, services.browser_sessions.find)
            return BrowserSessionResponse.model_validate(session)
    except SessionEnded:
        pass
    nobody = Response(status_code=204, headers={"Cache-Control": "no-store"})
    if token is not None:
        forget_session(nobody)
    return nobody


@router.delete("", status_code=204, summary="Sign out")
async def sign_out(services: ServicesDep, request: Request, response: Response) -> None:
    """End the session. Without one, nothing happens."""
    if (token := session_token(request, allow_http=services.settings.allow_http_sign_in)) is not None:
        if sender_of(request, services.settings.cors_origins) != "ours":
            raise ForeignOrigin
        with suppress(SessionEnded):
            await counted(request, token, services.browser_sessions.find)
            await services.browser_sessions.close(token)
    forget_session(response)
