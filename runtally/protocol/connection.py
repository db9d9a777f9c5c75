"""Connection: where the server is, with which key, and how a response is read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from runtally.errors import ApiError, ConfigurationError, FieldError, InvalidResponse, error_class

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_S = 60.0
"""Four times as long as a server is silent on a stream."""

DEFAULT_RETRIES = 5
_CONNECT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The settings of a client."""

    url: str
    api_key: str = field(repr=False)
    timeout_s: float
    max_retries: int

    @classmethod
    def of(
        cls, base_url: str | None, api_key: str | None, *, timeout_s: float, max_retries: int
    ) -> "Connection":
        """With RUNTALLY_URL and RUNTALLY_API_KEY as defaults; raises `ConfigurationError`."""
        url = base_url or os.environ.get("RUNTALLY_URL") or DEFAULT_URL
        key = api_key or os.environ.get("RUNTALLY_API_KEY")
        _require_url(url)
        if not key:
            raise ConfigurationError("RUNTALLY_API_KEY is not set; set it to the API key to use.")
        if not all("!" <= char <= "~" for char in key):
            raise ConfigurationError("The API key (RUNTALLY_API_KEY) has characters that a key cannot have.")
        return cls(url=url.rstrip("/"), api_key=key, timeout_s=timeout_s, max_retries=max_retries)

    def http_options(self) -> dict[str, Any]:
        """The options of an httpx client. It follows no redirects: the key is for this server only."""
        return {
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {self.api_key}"},
            "timeout": httpx.Timeout(self.timeout_s, connect=min(_CONNECT_S, self.timeout_s)),
            "follow_redirects": False,
        }


def _require_url(url: str) -> None:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigurationError(f"The URL of the server (RUNTALLY_URL) is not valid: {url!r}.") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        message = f"The URL of the server (RUNTALLY_URL) must start with http:// or https://: {url!r}."
        raise ConfigurationError(message)


def require_success(response: httpx.Response) -> None:
    """Raise the error of a response whose body is read: `ApiError`, or `InvalidResponse` for a redirect."""
    if response.is_success:
        return
    if not response.is_error:
        target = response.headers.get("location", "nowhere")
        raise InvalidResponse(
            f"{response.request.url} redirects (status {response.status_code}) to {target}; redirects are "
            "not followed, because they would get the API key. Use the URL of the server itself."
        )
    raise _error_of(response)


def json_of(response: httpx.Response) -> Any:
    """The body of a successful response; raises `InvalidResponse` if it is not JSON."""
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise InvalidResponse(_other_than("JSON", response)) from error


def bytes_of(response: httpx.Response) -> bytes:
    """The body of a successful response that is a file; raises `InvalidResponse` for the page of a proxy.

    No server of ours sends a file as a page.
    """
    if response.headers.get("content-type", "").startswith("text/html"):
        raise InvalidResponse(_other_than("a file", response))
    return response.content


def _other_than(expected: str, response: httpx.Response) -> str:
    kind = response.headers.get("content-type", "no type")
    return f"The response of {response.request.url} is not {expected} but {kind}. Is it a Runtally server?"


def _error_of(response: httpx.Response) -> ApiError:
    status = response.status_code
    problem = _problem(response)
    return error_class(status)(
        status,
        code=_text(problem, "code"),
        title=_text(problem, "title") or response.reason_phrase,
        detail=_text(problem, "detail"),
        errors=_field_errors(problem),
        request_id=response.headers.get("x-request-id"),
        run_id=_text(problem, "runId") or None,
        retry_after_s=_retry_after_s(response),
    )


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    """The problem document; empty for other responses, such as the page of a proxy."""
    try:
        document = response.json()
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _text(problem: Mapping[str, Any], name: str) -> str:
    value = problem.get(name)
    return value if isinstance(value, str) else ""


def _field_errors(problem: Mapping[str, Any]) -> list[FieldError]:
    errors = problem.get("errors")
    if not isinstance(errors, list):
        return []
    return [
        FieldError(_text(error, "field"), _text(error, "message"))
        for error in errors
        if isinstance(error, dict)
    ]


def _retry_after_s(response: httpx.Response) -> float | None:
    """The seconds of `Retry-After`; a date is not read, because our servers send none."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) < len("1000000") else None
