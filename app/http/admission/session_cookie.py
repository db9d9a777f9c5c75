"""The session cookie of browsers: set, read and deleted."""

from datetime import timedelta
from ipaddress import ip_address
from typing import Final

from fastapi import Request, Response

from app.errors import Forbidden

COOKIE: Final = "runtally_session"
_HOST_COOKIE: Final = f"__Host-{COOKIE}"
"""Used over https. Browsers accept a cookie of this name from this host only, not from a sibling domain."""

_PROXY_HEADERS: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class HttpsRequired(Forbidden):
    """Browsers must sign in over https; plain http works on this machine or if the operator allows it."""

    code = "https_required"


def session_token(request: Request, *, allow_http: bool) -> str | None:
    """The session token from the cookie.

    A page of a sibling domain can set the plain cookie, so it is read only where `__Host-` cannot be used.
    """
    token = request.cookies.get(_HOST_COOKIE)
    if token is None and _is_plain_http(request, allow_http=allow_http):
        token = request.cookies.get(COOKIE)
    return token


def require_secure_cookie(request: Request, *, allow_http: bool) -> None:
    """Raise `HttpsRequired` unless the browser can store a cookie that only this host can set."""
    if not _is_secure(request) and not _is_plain_http(request, allow_http=allow_http):
        raise HttpsRequired


def set_session_cookie(request: Request, response: Response, token: str, *, lifetime: timedelta) -> None:
    """Set the session cookie; scripts cannot read it."""
    secure = _is_secure(request)
    response.set_cookie(
        _HOST_COOKIE if secure else COOKIE,
        token,
        max_age=int(lifetime.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=secure,
    )


def delete_session_cookie(response: Response) -> None:
    """Delete the session cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    response.delete_cookie(_HOST_COOKIE, httponly=True, samesite="strict", secure=True)


def _is_secure(request: Request) -> bool:
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
