"""Routes by which Claude Code signs in: the device authorization grant (RFC 8628), refresh and revocation.

They need no credential, and ignore fields that they do not know: newer clients may send more.
"""

from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request, Response

from app.auth.device_logins.records import POLL_INTERVAL
from app.auth.device_logins.service import CODE_LIFETIME, TOKEN_LIFETIME
from app.errors import AppError, Invalid
from app.http.admission.checks import BodyLimit, CheckedRoute
from app.http.admission.limits import request_limits
from app.http.anthropic.login.errors import PATH, OAuthError
from app.http.anthropic.login.schemas import AuthorizationServer, DeviceAuthorization, TokenAnswer
from app.http.dependencies import BaseUrl, RequestId, ServicesDep
from app.http.problems import ERRORS
from app.platform.audit.records import Actor

_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"
_MAX_BYTES: Final = 4096
_MAX_FIELDS: Final = 20
_DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
_REFRESH: Final = "refresh_token"
_METADATA: Final = "/anthropic/.well-known/oauth-authorization-server"

_errors: dict[int | str, dict[str, Any]] = {status: {"model": OAuthError} for status in ERRORS}
router = APIRouter(route_class=CheckedRoute, tags=["anthropic"], responses=_errors)

_form_body = Depends(BodyLimit(_MAX_BYTES, is_optional=True, media_types=frozenset({_MEDIA_TYPE})))


class UnknownGrant(AppError):
    """This grant type is not served."""

    status, code = 400, "unsupported_grant_type"


async def _form(request: Request) -> dict[str, str]:
    """The fields of the body; raises `Invalid` if it has one twice."""
    try:
        found = parse_qs((await request.body()).decode(), max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise Invalid("The body is not a form.") from error
    if twice := [name for name, values in found.items() if len(values) > 1]:
        raise Invalid.field(twice[0][:100], "must be given once")
    return {name: values[0] for name, values in found.items()}


Form: TypeAlias = Annotated[dict[str, str], Depends(_form)]


def _documented(*names: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    return {"requestBody": {"content": {_MEDIA_TYPE: {"schema": schema}}}}


async def _device(request: Request, request_id: RequestId) -> Actor:
    return Actor("http", address=request.client.host if request.client else None, request_id=request_id)


DeviceActor: TypeAlias = Annotated[Actor, Depends(_device)]


@router.get(_METADATA, summary="How does Claude Code sign in?")
async def anthropic_login_metadata(base_url: BaseUrl) -> AuthorizationServer:
    """The metadata of the authorization server (RFC 8414)."""
    return AuthorizationServer(
        issuer=f"{base_url}/anthropic",
        device_authorization_endpoint=f"{base_url}{PATH}/device_authorization",
        token_endpoint=f"{base_url}{PATH}/token",
        revocation_endpoint=f"{base_url}{PATH}/revoke",
        grant_types_supported=[_DEVICE_CODE, _REFRESH],
    )


@router.post(
    f"{PATH}/device_authorization",
    dependencies=[_form_body],
    openapi_extra=_documented("surface"),
    summary="Begin a login",
)
async def begin_anthropic_login(
    request: Request, services: ServicesDep, base_url: BaseUrl
) -> DeviceAuthorization:
    """The codes of a login, which a person approves on a page."""
    address = request.client.host if request.client else None
    request_limits(request).count_login(address)
    begun = await services.device_logins.request(request.headers.get("user-agent", ""), address)
    page = f"{base_url}/device"
    return DeviceAuthorization(
        device_code=begun.device_code,
        user_code=begun.user_code,
        verification_uri=page,
        verification_uri_complete=f"{page}?user_code={begun.user_code}",
        expires_in=int(CODE_LIFETIME.total_seconds()),
        interval=int(POLL_INTERVAL.total_seconds()),
    )


@router.post(
    f"{PATH}/token",
    dependencies=[_form_body],
    openapi_extra=_documented("grant_type", "device_code", "refresh_token"),
    summary="Get the tokens of a login",
)
async def get_anthropic_token(form: Form, services: ServicesDep, device: DeviceActor) -> TokenAnswer:
    """Tokens for a device code once it is approved, or for a refresh token, which is used once."""
    logins, grant = services.device_logins, form.get("grant_type")
    if grant == _DEVICE_CODE:
        tokens = await logins.redeem(_required(form, "device_code"))
    elif grant == _REFRESH:
        tokens = await logins.refresh(_required(form, "refresh_token"), by=device)
    else:
        raise UnknownGrant
    account, end_user = await logins.account_of(tokens.access_token)
    return TokenAnswer(
        access_token=tokens.access_token,
        expires_in=int(TOKEN_LIFETIME.total_seconds()),
        refresh_token=tokens.refresh_token,
        email=account if end_user is None else f"{end_user} ({account})",
    )


@router.post(
    f"{PATH}/revoke",
    dependencies=[_form_body],
    openapi_extra=_documented("token", "token_type_hint"),
    response_model=None,
    response_class=Response,
    summary="End a login",
)
async def revoke_anthropic_token(form: Form, services: ServicesDep, device: DeviceActor) -> Response:
    """End the login that a token is of (RFC 7009); an unknown one is no error."""
    await services.device_logins.end(_required(form, "token"), by=device)
    return Response(status_code=200)


def _required(form: dict[str, str], name: str) -> str:
    if name not in form:
        raise Invalid.field(name, "Field required")
    return form[name]
