"""What URLs of settings are like."""

from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator

_HTTP: Final = (
    "must be http:// or https:// and a host, and may have a port and a path, for example "
    "https://api.example.org:8443/path"
)


def starts_with(*schemes: str) -> AfterValidator:
    """A URL with one of these schemes."""

    def check(url: str) -> str:
        if not url.startswith(schemes):
            raise ValueError(f"must start with {' or '.join(schemes)}")
        return url

    return AfterValidator(check)


def _is_http(url: str) -> str:
    try:
        parts = urlsplit(url)
        has_host = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(_HTTP) from None
    if not has_host or not url.isprintable() or " " in url:
        raise ValueError(_HTTP)
    return url


HttpUrl: TypeAlias = Annotated[str, AfterValidator(_is_http)]
