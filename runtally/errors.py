"""The errors of the client. Every one is a `RuntallyError`; its text can be shown to an operator."""

from collections.abc import Sequence
from dataclasses import dataclass


class RuntallyError(Exception):
    """Base of all errors of the client."""


class ConfigurationError(RuntallyError):
    """The URL or the API key of a client is missing or cannot be used."""


class ConnectionFailed(RuntallyError):
    """The server could not be reached, or the connection was lost more often than it is tried again."""


class InvalidResponse(RuntallyError):
    """The response is none of a Runtally server's: another program, a proxy, or a broken server."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field of a request."""

    field: str
    message: str


class ApiError(RuntallyError):
    """The server refused a request.

    `code` is for programs, `detail` for people; `request_id` finds the request in the server's log. A
    response that is not of the server itself, such as a proxy's page, has an empty `code`.
    """

    def __init__(
        self,
        status: int,
        *,
        code: str = "",
        title: str = "",
        detail: str = "",
        errors: Sequence[FieldError] = (),
        request_id: str | None = None,
        run_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail or f"The server responded with status {status}."
        self.errors = tuple(errors)
        self.request_id = request_id
        self.run_id = run_id
        self.retry_after_s = retry_after_s
        super().__init__(self.detail)


class InvalidRequest(ApiError):
    """The request is not valid (400, 413, 415, 422); `errors` lists its fields."""


class Unauthenticated(ApiError):
    """The API key is missing, unknown or revoked (401)."""


class InsufficientCredits(ApiError):
    """The account has no credit left (402); `code` is `budget_reached` if a budget is used up."""


class Forbidden(ApiError):
    """The API key lacks a scope (403)."""


class NotFound(ApiError):
    """There is no such run, graph, conversation … (404)."""


class Conflict(ApiError):
    """The request conflicts with the current state (409)."""


class Gone(ApiError):
    """The contents were deleted (410)."""


class RateLimited(ApiError):
    """Too many requests (429); `retry_after_s` is how long to wait."""


class ServerUnavailable(ApiError):
    """The server or something behind it is unavailable (5xx)."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    402: InsufficientCredits,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: RateLimited,
}
_SERVER_ERRORS = 500


def error_class(status: int) -> type[ApiError]:
    """The class of errors with this status."""
    return ServerUnavailable if status >= _SERVER_ERRORS else _BY_STATUS.get(status, ApiError)
