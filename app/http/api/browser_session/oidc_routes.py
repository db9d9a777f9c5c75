"""Sign-in of persons: the browser goes to the issuer, and comes back with its answer."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.oidc.attempt import LIFETIME, PAGE, Attempt
from app.auth.oidc.service import PersonSignIn, SignInExpired
from app.errors import AppError, NotFound
from app.http.admission.authentication import authenticate_limited
from app.http.admission.checks import CheckedRoute
from app.http.admission.session_cookie import SESSION, SIGN_IN
from app.http.api.browser_session.schemas import SignInMethodsResponse
from app.http.dependencies import ServicesDep

router = APIRouter(route_class=CheckedRoute, prefix="/v1/browser-session", tags=["browsers"])

_SEE_OTHER = 303


class OidcNotConfigured(NotFound):
    """Persons cannot sign in here: no issuer is configured."""

    code = "oidc_not_configured"


@router.get("/methods", summary="How can one sign in?")
async def list_sign_in_methods(services: ServicesDep) -> SignInMethodsResponse:
    """What the sign-in page offers besides API keys."""
    sign_in = services.person_sign_in
    return SignInMethodsResponse(oidc_host=None if sign_in is None else sign_in.provider.host)


@router.get("/oidc", include_in_schema=False)
async def begin_sign_in(
    services: ServicesDep, next_page: Annotated[str, Query(alias="next", pattern=PAGE)] = "/"
) -> Response:
    """Send the browser to the issuer. It comes back with a session, and goes on at the page `next`."""
    sign_in, attempt = _required(services.person_sign_in), Attempt.new(next_page)
    try:
        response = _redirect(await sign_in.address(attempt))
    except AppError as error:
        return _with_problem(sign_in, error)
    SIGN_IN.set(response, attempt.cookie, lifetime=LIFETIME, secure=_is_secure(sign_in))
    return response


@router.get("/oidc/callback", include_in_schema=False)
async def finish_sign_in(services: ServicesDep, request: Request) -> Response:
    """Open a session for who comes back from the issuer. Problems are shown by the page."""
    sign_in = _required(services.person_sign_in)
    secure = _is_secure(sign_in)
    try:
        attempt = Attempt.read(SIGN_IN.read(request, secure=secure))
        answer = dict(request.query_params)
        if attempt is None or len(answer) != len(request.query_params.multi_items()):
            raise SignInExpired
        opened = await authenticate_limited(
            request, attempt.cookie, lambda _: sign_in.finish(answer, attempt)
        )
    except AppError as error:
        response = _with_problem(sign_in, error)
    else:
        response = _redirect(f"{sign_in.provider.site}{attempt.page}")
        SESSION.set(response, opened.token, lifetime=sign_in.provider.lifetime, secure=secure)
    SIGN_IN.delete(response)
    return response


def _required(sign_in: PersonSignIn | None) -> PersonSignIn:
    if sign_in is None:
        raise OidcNotConfigured
    return sign_in


def _is_secure(sign_in: PersonSignIn) -> bool:
    return sign_in.provider.redirect_url.startswith("https://")


def _with_problem(sign_in: PersonSignIn, error: AppError) -> Response:
    return _redirect(f"{sign_in.provider.site}/?{urlencode({'problem': error.code})}")


def _redirect(url: str) -> Response:
    # The address of the callback has a code, which no other site shall see.
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return RedirectResponse(url, _SEE_OTHER, headers=headers)
