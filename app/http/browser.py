"""Browsers: the cookie they hold, where their requests come from, and what pages may do in them."""

from datetime import timedelta
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from fastapi import Request, Response

from app.errors import Forbidden

COOKIE: Final = "runtally_session"
_HOST_COOKIE: Final = f"__Host-{COOKIE}"
"""By https. A browser takes this name from this very host only, never from a neighbouring one."""

_PROXY_HEADERS: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

WebhookSender: TypeAlias = Literal["ours", "foreign", "unknown"]

PAGE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Kept, but asked about each time: after an update nobody sees half of the old pages.
    "Cache-Control": "no-cache",
}

_VIEWER = "https://cdn.jsdelivr.net/npm/swagger-ui-dist@5.35.0/"
DOCS_HEADERS: Final = {
    **PAGE_HEADERS,
    # It has the session's rights, so what it loads is pinned: docs.html says by hash what the files must be.
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'self' {_VIEWER}; style-src 'self' 'unsafe-inline' {_VIEWER}; "
        "img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
}


class ForeignOrigin(Forbidden):
    """A page of another site may not use this session."""

    code = "foreign_page"


class HttpsRequired(Forbidden):
    """Browsers sign in by https; by plain http only on this machine, or where the operator allows it."""

    code = "https_required"


def session_token(request: Request, *, allow_http: bool) -> str | None:
    """The session's token from the cookie.

    A page of a neighbouring host can set the plain cookie, so it counts only where `__Host-` cannot be used.
    """
    token = request.cookies.get(_HOST_COOKIE)
    if token is None and _is_plain_http(request, allow_http=allow_http):
        token = request.cookies.get(COOKIE)
    return token


def require_own_cookie(request: Request, *, allow_http: bool) -> None:
    """Raise `HttpsRequired` where no cookie could be kept that only this host can have set."""
    if not _is_secure(request) and not _is_plain_http(request, allow_http=allow_http):
        raise HttpsRequired


def keep_session(request: Request, response: Response, token: str, *, lifetime: timedelta) -> None:
    """Have the browser hold a session, out of reach of every script."""
    secure = _is_secure(request)
    response.set_cookie(
        _HOST_COOKIE if secure else COOKIE,
        token,
        max_age=int(lifetime.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=secure,
    )


def forget_session(response: Response) -> None:
    """Have the browser forget its session."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    response.delete_cookie(_HOST_COOKIE, httponly=True, samesite="strict", secure=True)


def sender_of(request: Request, origins: tuple[str, ...]) -> WebhookSender:
    """Whose page has sent a request, by what browsers let no page forge.

    `origins` are those of other sites that may. Old browsers, and new ones by plain http, send no
    `Sec-Fetch-Site`; the host in `Origin` tells then.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin in origins or site == "same-origin":
        return "ours"
    if site is None and origin is None:
        return "unknown"
    if site is None and urlsplit(origin or "").netloc == request.headers.get("host"):
        return "ours"
    return "foreign"


def _is_secure(request: Request) -> bool:
    """Whether the browser speaks https. A proxy that ends TLS may not say so; the browser does."""
    return _came_by_https(request) or request.headers.get("origin", "").startswith("https://")


def _came_by_https(request: Request) -> bool:
    # Also of a proxy that is not trusted: it can only make us stricter.
    told = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return request.url.scheme == "https" or told == "https"


def _is_plain_http(request: Request, *, allow_http: bool) -> bool:
    """Whether the browser speaks plain http with certainty: with this machine, or as the operator says."""
    if _came_by_https(request):
        return False
    return allow_http or (_is_loopback(request.url.hostname or "") and not _hides_its_scheme(request))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _hides_its_scheme(request: Request) -> bool:
    """Whether a proxy passed this on without telling by which scheme it came."""
    headers = request.headers
    return "x-forwarded-proto" not in headers and any(name in headers for name in _PROXY_HEADERS)
