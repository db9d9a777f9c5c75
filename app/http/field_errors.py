"""Validation errors of pydantic as one sentence per JSON field, without the submitted values."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from app.errors import FieldError

Path: TypeAlias = tuple[str, ...]
Detail: TypeAlias = Mapping[str, Any]

_MAX_NAME_CHARS = 100
_NAMES_A_FIELD = {"missing", "extra_forbidden"}
_WRONG_TYPES = {
    "string_type": "a string",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
}
_UNSUPPORTED_PARAMETERS = {
    *("seed", "stop"),
    *("presence_penalty", "presencePenalty", "frequency_penalty", "frequencyPenalty"),
}
"""Parameters of other providers' models."""

_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this request",
    "string_unicode": "must be valid Unicode text",
    "union_tag_not_found": "needs a type",
}
_SHOULD = re.compile(r"^(Input|String|List|Decimal input|Value) should ")
_ASIDE = re.compile(r" after validation, not \d+$")


def field_errors(details: Sequence[Detail], body: Any) -> list[FieldError]:
    """One error for each field, by its JSON path."""
    found: dict[Path, list[Detail]] = {}
    for detail in details:
        found.setdefault(_path(detail, body), []).append(detail)
    return [
        FieldError(".".join(path) or "body", _sentence(path, of_field))
        for path, of_field in found.items()
        if not _is_noise(path, of_field, found)
    ]


def _path(detail: Detail, body: Any) -> Path:
    """`("body", "messages", 0, "content", "list[…]", 0, "text", "text")` -> `messages.0.content.0.text`.

    Pydantic puts union members into the path. Clients do not know them, so only names that are in the
    body, or missing from it, are kept.
    """
    source, *parts = detail["loc"]
    if source != "body":
        return tuple(str(part) for part in parts)
    named: list[str] = []
    value, tagged = body, False
    last = len(parts) - 1
    for index, part in enumerate(parts):
        names_a_field = index == last and detail["type"] in _NAMES_A_FIELD
        is_tag = _is_tag(part, value) and not tagged
        if _has(value, part) and not is_tag:
            value, tagged = value[part], False
        elif not names_a_field:
            tagged = tagged or is_tag
            continue
        named.append(str(part)[:_MAX_NAME_CHARS])
    return tuple(named)


def _has(value: Any, part: str | int) -> bool:
    if isinstance(part, int):
        return isinstance(value, list) and part < len(value)
    return isinstance(value, dict) and part in value


def _is_tag(part: str | int, value: Any) -> bool:
    return isinstance(value, dict) and part == value.get("type")


def _is_noise(path: Path, details: Sequence[Detail], found: Mapping[Path, Any]) -> bool:
    """Whether these are type errors of other union members than the one that was meant."""
    wrong_type = all(detail["type"] in _WRONG_TYPES for detail in details)
    return wrong_type and any(other[: len(path)] == path != other for other in found)


def _sentence(path: Path, details: Sequence[Detail]) -> str:
    other = [detail for detail in details if detail["type"] not in _WRONG_TYPES]
    if not other:
        types = dict.fromkeys(_WRONG_TYPES[detail["type"]] for detail in details)
        return f"must be {' or '.join(types)}"
    detail = other[0]
    match detail["type"]:
        case "union_tag_invalid":
            return f"has an unknown type; known are {detail['ctx']['expected_tags']}"
        case "extra_forbidden" if len(path) == 1 and path[0] in _UNSUPPORTED_PARAMETERS:
            return "is a parameter that Claude models do not take"
        case kind if kind in _SENTENCES:
            return _SENTENCES[kind]
        case _:
            message: str = detail["msg"].removeprefix("Value error, ")
            return _ASIDE.sub("", _SHOULD.sub("must ", message))
