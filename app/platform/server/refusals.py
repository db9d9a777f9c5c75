"""Responses to requests that are refused before an app has them."""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

RefusalForm: TypeAlias = Callable[
    [str, dict[str, Any]], tuple[int, dict[str, Any], list[tuple[bytes, bytes]]] | None
]
"""Status, body and further headers of the error of a path, by the problem document; None: that itself."""

_RETRY_AFTER_S: Final = 5
_TRANSIENT: Final = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: ("malformed_request", "This is not a valid HTTP request."),
    HTTPStatus.REQUEST_TIMEOUT: ("request_timeout", "The request's headers took too long."),
    HTTPStatus.REQUEST_URI_TOO_LONG: ("uri_too_long", "The request's URL is too long."),
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
        "headers_too_large",
        "The request's headers are too large.",
    ),
    HTTPStatus.TOO_MANY_REQUESTS: (
        "too_many_connections",
        "Too many connections from this address; try again later.",
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "server_full",
        "The server has no room for another connection; try again later.",
    ),
}


def refusal(status: HTTPStatus, url: bytes, form: RefusalForm) -> bytes:
    """The whole response; `url` is what has been received of the request's target."""
    code, detail = _REASONS[status]
    problem = {"type": f"urn:runtally:problem:{code}", "title": status.phrase, "status": status.value}
    problem |= {"detail": detail, "code": code}
    path = unquote(url.partition(b"?")[0].decode("latin-1"))
    formed = form(path, problem)
    kind = "application/problem+json" if formed is None else "application/json"
    sent, content, more = formed or (status.value, problem, [])
    body = json.dumps(content).encode()
    lines = [
        f"HTTP/1.1 {sent} {HTTPStatus(sent).phrase}",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "connection: close",
        *(f"{name.decode()}: {value.decode()}" for name, value in more),
    ]
    if status in _TRANSIENT:
        lines.append(f"retry-after: {_RETRY_AFTER_S}")
    return "\r\n".join([*lines, "", ""]).encode() + body
