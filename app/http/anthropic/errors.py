"""The form of the Messages API around our routes: where a key may stand, and errors."""

from typing import Any, Final, Literal

from pydantic import BaseModel

from app.http.foreign_errors import ErrorForm, ForeignError, Headers

PATH: Final = "/anthropic/v1"

_UNPROCESSABLE, _BAD_REQUEST, _SERVER_ERROR = 422, 400, 500
_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}
_STATUSES: Final = {"unknown_model": 404, "model_not_priced": 404}
"""By code: those that its clients expect."""
_RETRIED: Final = {401: b"false", 402: b"false", 409: b"false", 429: b"true", 503: b"true"}
"""Whether clients should send a request again, where it is not left to their own rules."""


class AnthropicErrorDetails(BaseModel):
    """What went wrong."""

    type: str
    message: str


class AnthropicError(BaseModel):
    """An error."""

    type: Literal["error"]
    error: AnthropicErrorDetails


def error_json(status: int, code: str, message: str) -> tuple[int, dict[str, Any]]:
    """An error as clients of the Messages API read it, and its status there."""
    status = _STATUSES.get(code, status)
    status = _BAD_REQUEST if status == _UNPROCESSABLE else status
    kind = _TYPES.get(status, "api_error" if status >= _SERVER_ERROR else "invalid_request_error")
    return status, {"type": "error", "error": {"type": kind, "message": message}}


class AnthropicErrors(ErrorForm):
    """Reads the key where the provider's clients send it, and answers with errors as they read them."""

    request_id = b"request-id"

    def read_headers(self, headers: Headers) -> Headers:
        """With the key of `x-api-key` as a bearer, unless there is one."""
        named = dict(headers)
        if b"authorization" in named or b"x-api-key" not in named:
            return headers
        return [*headers, (b"authorization", b"Bearer " + named[b"x-api-key"])]

    def translate(self, problem: dict[str, Any], headers: dict[bytes, bytes]) -> ForeignError:  # noqa: ARG002
        status, body = error_json(problem["status"], problem["code"], problem["detail"])
        retried = _RETRIED.get(status)
        return ForeignError(status, body, [] if retried is None else [(b"x-should-retry", retried)])


class MessagesErrors(AnthropicErrors):
    """Those of the Messages API."""

    paths = ("/anthropic",)
