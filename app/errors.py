"""The kinds of errors.

AppError                      500  internal
├── Invalid                   422  invalid_request
├── Unauthenticated           401  unauthenticated
├── PaymentRequired           402  insufficient_credits
├── Forbidden                 403  forbidden
├── NotFound                  404  not_found
├── TooSlow                   408  request_timeout
├── Conflict                  409  conflict
├── Gone                      410  gone
├── TooLarge                  413  payload_too_large
├── UnsupportedMediaType      415  unsupported_media_type
├── TooMany                   429  rate_limit
├── InvalidOutput             502  invalid_output
├── Unavailable               503  unavailable
├── TimedOut                  504  timeout
└── InsufficientStorage       507  storage_quota

Concrete errors are declared at the top of the module that raises them: the class is named after the
situation, its docstring is the sentence shown to clients, `code` is what programs branch on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self


class OperatorError(Exception):
    """An error in the server's configuration; the text is for the operator and is never sent to clients."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """The error of one field of a request; `field` is its dotted JSON path."""

    field: str
    message: str


class AppError(Exception):
    """An internal error occurred."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        retry_after_s: int | None = None,
        limit: int | None = None,
        run_id: str | None = None,
        members: Mapping[str, str | None] | None = None,
    ) -> None:
        """`detail` replaces the class's sentence and is shown to clients: no secret, path or upstream text.

        `limit` is the limit that was exceeded, `run_id` the run that ended with this error, `members` what
        the problem document has besides.
        """
        self.detail = detail or (type(self).__doc__ or "").strip().partition("\n")[0]
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s
        self.limit = limit
        self.run_id = run_id
        self.members = members or {}
        super().__init__(self.detail)


class Invalid(AppError):
    """The request is not valid."""

    status = 422
    code = "invalid_request"

    @classmethod
    def field(cls, field: str, message: str) -> Self:
        return cls(f"{field}: {message}", errors=[FieldError(field, message)])

    def below(self, name: str) -> Self:
        """The same error, about fields of a part of the request; its class decides the code."""
        errors = [FieldError(f"{name}.{fault.field}", fault.message) for fault in self.errors]
        return type(self)(f"{name}.{self.detail}" if errors else self.detail, errors=errors)


class Unauthenticated(AppError):
    """The API key is missing, unknown or revoked."""

    status = 401
    code = "unauthenticated"


class PaymentRequired(AppError):
    """The account has no credit left."""

    status = 402
    code = "insufficient_credits"


class Forbidden(AppError):
    """The API key lacks the scope for this request."""

    status = 403
    code = "forbidden"


class NotFound(AppError):
    """The requested resource does not exist."""

    status = 404
    code = "not_found"


class TooSlow(AppError):
    """The request took too long to arrive."""

    status = 408
    code = "request_timeout"


class Conflict(AppError):
    """The request conflicts with the current state."""

    status = 409
    code = "conflict"


class Gone(AppError):
    """The requested resource was deleted."""

    status = 410
    code = "gone"


class TooLarge(AppError):
    """The request body is too large."""

    status = 413
    code = "payload_too_large"


class UnsupportedMediaType(AppError):
    """The body is of a type that this request does not accept."""

    status = 415
    code = "unsupported_media_type"


class TooMany(AppError):
    """Too many requests; try again later."""

    status = 429
    code = "rate_limit"


class InvalidOutput(AppError):
    """The model's answer does not have the requested form."""

    status = 502
    code = "invalid_output"


class Unavailable(AppError):
    """A component that this request needs is unavailable; try again later."""

    status = 503
    code = "unavailable"

    is_logged: bool = False
    """Whether its cause has log lines of its own, when it begins and when it is over."""


class TimedOut(AppError):
    """The operation timed out."""

    status = 504
    code = "timeout"


class InsufficientStorage(AppError):
    """The account's storage quota is used up."""

    status = 507
    code = "storage_quota"
