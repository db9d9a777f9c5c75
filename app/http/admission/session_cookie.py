"""The cookies of browsers: set, read and deleted."""

from datetime import timedelta
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias

from fastapi import Request, Response

from app.errors import Forbidden

COOKIE: Final = "runtally_session"
SIGN_IN_COOKIE: Final = "runtally_sign_in"
"""Of a person who is at the issuer: sent when that leads back here, from another site."""
_HOST: Final = "__Host-"
"""Their names begin so over https: browsers accept that from this host only, not from a sibling domain."""

_SameSite: TypeAlias = Literal["lax", "strict"]
_PROXY_HEADERS: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class HttpsRequired(Forbidden):
    """Browsers must sign in over https; plain http works on this machine or if the operator allows it."""

    code = "https_required"


def session_token(request: Request, *, allow_http: bool) -> str | None:
    """The session token from the cookie.

    A page of a sibling domain can set the plain cookie, so it is read only where `__Host-` cannot be used.
    """
    token = request.cookies.get(f"{_HOST}{COOKIE}")
    if token is None and _is_plain_http(request, allow_http=allow_http):
        token = request.cookies.get(COOKIE)
    return token


def require_secure_cookie(request: Request, *, allow_http: bool) -> None:
    """Raise `HttpsRequired` unless the browser can store a cookie that only this host can set."""
    if not is_secure(request) and not _is_plain_http(request, allow_http=allow_http):
        raise HttpsRequired


def sign_in_cookie(request: Request, *, secure: bool) -> str | None:
    """What a browser keeps while a person is at the issuer."""
    return request.cookies.get(_name_of(SIGN_IN_COOKIE, secure=secure))


def set_sign_in_cookie(response: Response, value: str, *, lifetime: timedelta, secure: bool) -> None:
    """Set it; scripts cannot read it."""
    _set(response, SIGN_IN_COOKIE, value, lifetime, secure=secure, samesite="lax")


def set_session_cookie(response: Response, token: str, *, lifetime: timedelta, secure: bool) -> None:
    """Set the session cookie; scripts cannot read it."""
    _set(response, COOKIE, token, lifetime, secure=secure, samesite="strict")


def delete_session_cookie(response: Response) -> None:
    _delete(response, COOKIE, samesite="strict")


def delete_sign_in_cookie(response: Response) -> None:
    _delete(response, SIGN_IN_COOKIE, samesite="lax")


def _name_of(cookie: str, *, secure: bool) -> str:
    return f"{_HOST}{cookie}" if secure else cookie


def _set(
    response: Response, cookie: str, value: str, lifetime: timedelta, *, secure: bool, samesite: _SameSite
) -> None:
    age, name = int(lifetime.total_seconds()), _name_of(cookie, secure=secure)
    response.set_cookie(name, value, max_age=age, httponly=True, samesite=samesite, secure=secure)


def _delete(response: Response, cookie: str, *, samesite: _SameSite) -> None:
    for secure in (False, True):
        name = _name_of(cookie, secure=secure)
        response.delete_cookie(name, httponly=True, samesite=samesite, secure=secure)


def is_secure(request: Request) -> bool:
    """Whether the browser uses https. A proxy that terminates TLS may not forward that; `Origin` shows it."""
    return _came_by_https(request) or request.headers.get("origin", "").startswith("https://")


def _came_by_https(request: Request) -> bool:
    # Read from untrusted proxies, too: it can only make the result stricter.
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return request.url.scheme == "https" or forwarded == "https"


def _is_plain_http(request: Request, *, allow_http: bool) -> bool:
    """Whether the browser certainly uses plain http: on this machine, or because the operator allows it."""
    if _came_by_https(request):
        return False
    return allow_http or (
        _is_loopback(request.url.hostname or "") and not _is_proxied_without_scheme(request)
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_proxied_without_scheme(request: Request) -> bool:
    """Whether a proxy forwarded this request without its scheme."""
    headers = request.headers
    return "x-forwarded-proto" not in headers and any(name in headers for name in _PROXY_HEADERS)
