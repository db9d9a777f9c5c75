"""The cookies of browsers: set, read and deleted."""

from datetime import timedelta
from ipaddress import ip_address
from typing import Final, Literal, NamedTuple

from fastapi import Request, Response

from app.errors import Forbidden

_HOST: Final = "__Host-"
"""Their names begin so over https: browsers accept that from this host only, not from a sibling domain."""

_PROXY_HEADERS: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class BrowserCookie(NamedTuple):
    """A cookie that scripts cannot read."""

    name: str
    samesite: Literal["lax", "strict"]

    def read(self, request: Request, *, secure: bool) -> str | None:
        return request.cookies.get(self._name(secure=secure))

    def set(self, response: Response, value: str, *, lifetime: timedelta, secure: bool) -> None:
        response.set_cookie(
            self._name(secure=secure),
            value,
            max_age=int(lifetime.total_seconds()),
            httponly=True,
            samesite=self.samesite,
            secure=secure,
        )

    def delete(self, response: Response) -> None:
        for secure in (False, True):
            name = self._name(secure=secure)
            response.delete_cookie(name, httponly=True, samesite=self.samesite, secure=secure)

    def _name(self, *, secure: bool) -> str:
        return f"{_HOST}{self.name}" if secure else self.name


SESSION: Final = BrowserCookie("runtally_session", "strict")
SIGN_IN: Final = BrowserCookie("runtally_sign_in", "lax")
"""Of a person who is at the issuer: sent when that leads back here, from another site."""


class HttpsRequired(Forbidden):
    """Browsers must sign in over https; plain http works on this machine or if the operator allows it."""

    code = "https_required"


def session_token(request: Request, *, allow_http: bool) -> str | None:
    """The session token from the cookie.

    A page of a sibling domain can set the plain cookie, so it is read only where `__Host-` cannot be used.
    """
    token = SESSION.read(request, secure=True)
    if token is None and _is_plain_http(request, allow_http=allow_http):
        token = SESSION.read(request, secure=False)
    return token


def require_secure_cookie(request: Request, *, allow_http: bool) -> None:
    """Raise `HttpsRequired` unless the browser can store a cookie that only this host can set."""
    if not is_secure(request) and not _is_plain_http(request, allow_http=allow_http):
        raise HttpsRequired


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
