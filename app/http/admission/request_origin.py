"""Whether a request comes from one of our pages, by headers that no page can forge."""

from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from fastapi import Request

from app.errors import Forbidden

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

RequestOrigin: TypeAlias = Literal["ours", "foreign", "unknown"]


class ForeignOrigin(Forbidden):
    """A page of another site may not use this session."""

    code = "foreign_page"


def request_origin(request: Request, origins: tuple[str, ...]) -> RequestOrigin:
    """Classify a request by the page that sent it.

    `origins` are other sites that are allowed, and count as ours. Old browsers, and new ones over plain
    http, send no `Sec-Fetch-Site`; then the host in `Origin` is compared.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin in origins or site == "same-origin":
        return "ours"
    if site is None and origin is None:
        return "unknown"
    if site is None and urlsplit(origin or "").netloc == request.headers.get("host"):
        return "ours"
    return "foreign"
