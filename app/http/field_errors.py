"""Validation errors of requests as one sentence per JSON field, without the submitted values."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from app.errors import FieldError, Invalid
from app.platform.serialization.mistakes import UNKNOWN, Detail, Mistake, mistakes_in, problem_of

MAX_NAME_CHARS = 100
_BODY = "body"
_UNSUPPORTED_PARAMETERS = {
    *("seed", "stop"),
    *("presence_penalty", "presencePenalty", "frequency_penalty", "frequencyPenalty"),
}
"""Parameters of other providers' models."""


def field_errors(details: Sequence[Detail], body: Any) -> list[FieldError]:
    """One error for each field, by its JSON path."""
    in_body = [{**each, "loc": each["loc"][1:]} for each in details if each["loc"][0] == _BODY]
    return [
        *(
            FieldError(_name(each["loc"][1:]), problem_of(each))
            for each in details
            if each["loc"][0] != _BODY
        ),
        *(FieldError(_name(each.path) or _BODY, _sentence(each)) for each in mistakes_in(in_body, body)),
    ]


def invalid_fields(error: ValidationError, body: Any, rename: Callable[[str], str] = str) -> Invalid:
    """The error of a part of a body that was validated by itself; `rename` says where its fields are."""
    details: list[Any] = [{**detail, "loc": (_BODY, *detail["loc"])} for detail in error.errors()]
    return rename_fields(field_errors(details, body), rename)


def rename_fields(errors: Sequence[FieldError], rename: Callable[[str], str]) -> Invalid:
    """`Invalid` with these errors under the posted names."""
    renamed = [FieldError(rename(fault.field), fault.message) for fault in errors]
    message = f"{renamed[0].field}: {renamed[0].message}"
    return Invalid(message, errors=renamed)


def _name(path: Sequence[str | int]) -> str:
    return ".".join(str(part)[:MAX_NAME_CHARS] for part in path)


def _sentence(mistake: Mistake) -> str:
    if mistake.kind != UNKNOWN:
        return mistake.problem
    if len(mistake.path) == 1 and mistake.path[0] in _UNSUPPORTED_PARAMETERS:
        return "is a parameter that Claude models do not take"
    return "is not a field of this request"
