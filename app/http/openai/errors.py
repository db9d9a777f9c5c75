"""Errors in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from typing import Any, Final

from pydantic import BaseModel

from app.http.foreign_errors import ErrorForm, ForeignError, Headers
from app.http.problems import ERRORS

PATH: Final = "/openai/v1"

_CONFLICT, _SERVER_ERROR = 409, 500
_TYPES: Final = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_CODES: Final = {"unauthenticated": "invalid_api_key", "graph_not_found": "model_not_found"}
"""Codes that their clients know, by ours; all others are ours."""
_FIELDS: Final = {
    "responseFormat": ("response_format.json_schema", "text.format"),
    "effort": ("reasoning_effort", "reasoning.effort"),
    "thinkingBudgetTokens": ("reasoning_effort", "reasoning.effort"),
    "endUser": ("user", "user"),
}
"""Those of a chat completion and of a response that are fields of our runs, by the first part of ours."""
_NEVER_AGAIN: Final = (b"x-should-retry", b"false")
"""Their clients send a request that failed with 5xx twice more, and each would be a run of its own.

And with 409, which is not about locks here.
"""


class OpenAiErrorDetails(BaseModel):
    """What went wrong; `param` is the field that it is about."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAiError(BaseModel):
    """An error."""

    error: OpenAiErrorDetails


ERROR_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": OpenAiError} for status in ERRORS
}
"""OpenAPI responses of the wire."""


def error_json(status: int, code: str, message: str, *, param: str | None = None) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= _SERVER_ERROR else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": _CODES.get(code, code)}}


class OpenAiErrors(ErrorForm):
    """Answers with errors as clients of this wire read them."""

    paths = ("/openai",)

    def translate(self, problem: dict[str, Any], headers: dict[bytes, bytes]) -> ForeignError:
        param, message = None, problem["detail"]
        if errors := problem.get("errors"):
            param, own = _posted(errors[0]["field"], problem["instance"]), errors[0]["field"]
            message = message if param == own else f"{param}: {errors[0]['message']}"
        error = error_json(problem["status"], problem["code"], message, param=param)
        is_final = "runId" in problem or problem["status"] == _CONFLICT
        never_again = [_NEVER_AGAIN] if is_final else []
        return ForeignError(problem["status"], error, [*never_again, *_rate_limits(headers)])


def _posted(field: str, path: str) -> str:
    """What a client has posted there as a field of our runs."""
    name, *rest = field.split(".")
    names = _FIELDS.get(name, (name, name))
    return ".".join([names[path.startswith(f"{PATH}/responses")], *rest])


def _rate_limits(headers: dict[bytes, bytes]) -> Headers:
    """The limit of requests that was exceeded, in the headers that their clients read."""
    policy = headers.get(b"ratelimit-policy")
    if policy is None:
        return []
    limit = policy.partition(b"q=")[2]
    after = headers.get(b"retry-after", b"1") + b"s"
    return [
        (b"x-ratelimit-limit-requests", limit),
        (b"x-ratelimit-remaining-requests", b"0"),
        (b"x-ratelimit-reset-requests", after),
    ]
