"""Problem documents (RFC 9457) for all errors."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.errors import AppError, FieldError, InsufficientStorage, Invalid, Unauthenticated, Unavailable
from app.http.field_errors import field_errors
from app.http.response_model import ResponseModel
from app.platform.logs.context import note

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
ERRORS: Final = ("4XX", "5XX")
"""The statuses of errors, as the OpenAPI document has them."""

_BAD_JSON = "json_invalid"
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_RETRY_AFTER_S = 5
_TRANSIENT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_CODES = {
    HTTPStatus.BAD_REQUEST: "malformed_json",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
}
_SENTENCES = {
    HTTPStatus.BAD_REQUEST: "The body is not valid JSON.",
    HTTPStatus.NOT_FOUND: "There is no resource at this path.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This path does not support this method.",
}


class FieldProblem(ResponseModel):
    """The error of one field."""

    field: str
    message: str


class Problem(ResponseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Field(description="Stable; docs/api/errors.md lists all.", examples=["not_found"])]
    errors: list[FieldProblem] | None = None
    run_id: str | None = None
    budget: Annotated[str | None, Field(description="With `budget_reached`: its id.")] = None
    resets_at: Annotated[str | None, Field(description="When it can be spent again; null: never.")] = None


class ProblemResponse(JSONResponse):
    """A problem document."""

    media_type = MEDIA_TYPE


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[FieldError] = (),
    run_id: str | None = None,
    members: Mapping[str, str | None] | None = None,
    headers: Mapping[str, str] | None = None,
) -> ProblemResponse:
    content: dict[str, Any] = {
        "type": f"urn:runtally:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        content["errors"] = [{"field": e.field, "message": e.message} for e in errors]
    if run_id is not None:
        content["runId"] = run_id
    content |= {to_camel(name): value for name, value in (members or {}).items()}
    return ProblemResponse(content, status_code=status, headers=dict(headers or {}))


def error_response(error: AppError) -> ProblemResponse:
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if error.status in _TRANSIENT:
        headers["Retry-After"] = str(error.retry_after_s or _RETRY_AFTER_S)
    if error.limit is not None:
        # draft-ietf-httpapi-ratelimit-headers: the policy, and the rest of the quota.
        headers["RateLimit-Policy"] = f'"runs";q={error.limit}'
        headers["RateLimit"] = f'"runs";r=0;t={error.retry_after_s or _RETRY_AFTER_S}'
    return problem_response(
        *(error.status, error.code, error.detail),
        errors=error.errors,
        run_id=error.run_id,
        members=error.members,
        headers=headers,
    )


def install_error_handlers(app: FastAPI) -> None:
    """Register handlers that respond to every error with a problem document."""
    app.add_exception_handler(AppError, _app_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)


async def _app_error(_request: Request, error: Exception) -> ProblemResponse:
    if not isinstance(error, AppError):
        raise error
    note(code=error.code)
    # What is unavailable has log lines of its own when it goes and when it is back.
    is_expected = isinstance(error, Unavailable | InsufficientStorage)
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not is_expected:
        log.error("http.request_failed", code=error.code, reason=error.detail, cause=repr(error.__cause__))
    return error_response(error)


async def _validation_error(_request: Request, error: Exception) -> ProblemResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    details = error.errors()
    if any(detail["type"] == _BAD_JSON for detail in details):
        return _status_response(HTTPStatus.BAD_REQUEST)
    errors = field_errors(details, error.body)
    first = errors[0]
    return error_response(Invalid(f"{first.field}: {first.message}", errors=errors))


async def _http_exception(request: Request, error: Exception) -> ProblemResponse:
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = _allowed_methods(request)
    return _status_response(status, headers=headers)


def _status_response(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> ProblemResponse:
    code = _CODES.get(status, status.phrase.lower().replace(" ", "_"))
    return problem_response(status, code, _SENTENCES.get(status, f"{status.phrase}."), headers=headers)


def _allowed_methods(request: Request) -> str:
    """All methods of this path; the router reports those of one route only."""
    known = [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.router.routes
        )
    ]
    return ", ".join([*known, *(["HEAD"] if "GET" in known else [])])
