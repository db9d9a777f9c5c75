"""Errors as problem documents (RFC 9457): one shape for everything that goes wrong."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from app.errors import AppError, FieldError, Invalid, Unauthenticated

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"

_BAD_JSON = "json_invalid"
_SOURCES = {"body", "query", "path", "header"}
_CODES = {
    HTTPStatus.BAD_REQUEST: "malformed_request",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "unsupported_media_type",
}


class ProblemResponse(JSONResponse):
    """A problem document."""

    media_type = MEDIA_TYPE


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
) -> ProblemResponse:
    """Build a problem document."""
    content: dict[str, Any] = {
        "type": f"urn:runtally:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        content["errors"] = [{"field": e.field, "message": e.message} for e in errors]
    return ProblemResponse(content, status_code=status, headers=dict(headers or {}))


def of_error(error: AppError) -> ProblemResponse:
    """The document of one of our own errors."""
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return problem(error.status, error.code, error.detail, errors=error.errors, headers=headers)


def install(app: FastAPI) -> None:
    """Answer every error of this app with a problem document."""
    app.add_exception_handler(AppError, _app_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(Exception, _unexpected)


def field_errors(details: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    """What pydantic found, by JSON path; never with the value that was sent."""
    found: dict[str, FieldError] = {}
    for detail in details:
        field = _path(detail["loc"])
        found.setdefault(field, FieldError(field, _sentence(detail)))
    return list(found.values())


async def _app_error(_request: Request, error: Exception) -> ProblemResponse:
    if not isinstance(error, AppError):
        raise error
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("request failed", code=error.code, reason=error.detail)
    return of_error(error)


async def _validation_error(_request: Request, error: Exception) -> ProblemResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    details = error.errors()
    if any(detail["type"] == _BAD_JSON for detail in details):
        return problem(HTTPStatus.BAD_REQUEST, "malformed_json", "The body is not valid JSON.")
    errors = field_errors(details)
    first = errors[0]
    return of_error(Invalid(f"{first.field}: {first.message}", errors=errors))


async def _http_exception(_request: Request, error: Exception) -> ProblemResponse:
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    code = _CODES.get(status, status.phrase.lower().replace(" ", "_"))
    return problem(status, code, f"{status.description or status.phrase}.", headers=error.headers)


async def _unexpected(request: Request, error: Exception) -> ProblemResponse:
    log.error("unexpected error", path=request.url.path, exc_info=error)
    return of_error(AppError())


def _path(location: Sequence[str | int]) -> str:
    """`("body", "messages", 0, "content")` -> `messages.0.content`.

    Pydantic puts the name of a union's member into the path; a client has never heard of it.
    """
    parts = list(location)
    if parts and parts[0] in _SOURCES:
        parts = parts[1:]
    named = [str(part) for part in parts if not _is_union_member(part)]
    return ".".join(named) or "body"


def _is_union_member(part: str | int) -> bool:
    return isinstance(part, str) and (
        part in {"str", "text", "image"} or part.startswith(("list[", "constrained-", "function-"))
    )


def _sentence(detail: Mapping[str, Any]) -> str:
    match detail["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not a field of this request"
        case _:
            message: str = detail["msg"]
            return message.removeprefix("Value error, ")
