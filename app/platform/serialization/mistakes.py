"""What pydantic has found to be wrong, as one sentence per place, in our words and without the value.

Its own sentences name types of Python and change with its releases: none is shown.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from app.platform.serialization.pattern_words import PATTERN_WORDS

Detail: TypeAlias = Mapping[str, Any]
"""One of the errors that pydantic lists."""
Path: TypeAlias = tuple[str | int, ...]

UNKNOWN = "extra_forbidden"
"""The type of the error for a name that is not known."""

_KEY = "[key]"
"""In place of a value: the error is about its name."""
_NAMES_A_FIELD = {"missing", UNKNOWN, "invalid_key"}
_OURS = {"value_error": "Value error, ", "assertion_error": "Assertion failed, ", "blank": ""}
"""The sentences of our own validators, and what pydantic puts before them."""

_LIST, _OBJECT, _INTEGER = "a list", "an object", "an integer"
WRONG_TYPES = {
    "string_type": "a string",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), _LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), _OBJECT),
    **dict.fromkeys(("dataclass_type", "named_tuple_type"), _OBJECT),
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing", "int_parsing_size"), _INTEGER),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("decimal_type", "decimal_parsing"), "a decimal number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("uuid_type", "uuid_parsing", "uuid_version"), "a UUID"),
    "path_type": "a path",
    "none_required": "null",
}
_DATES = re.compile("(date|time)")
_SENTENCES = {
    "missing": "is required",
    UNKNOWN: "is not known",
    "invalid_key": "is no string; put it in quotes",
    "string_unicode": "must be valid Unicode text",
    "string_not_ascii": "must be ASCII text",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be greater than or equal to {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be less than or equal to {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "finite_number": "must be a finite number",
    "decimal_max_digits": "must have at most {max_digits} digits",
    "decimal_max_places": "must have at most {decimal_places} digits after its point",
    "decimal_whole_digits": "must have at most {whole_digits} digits before its point",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_invalid": "has an unknown type; known are {expected_tags}",
    "union_tag_not_found": "needs a type",
    "url_scheme": "must begin with {expected_schemes}",
    "recursion_loop": "contains itself",
}
_ONE = re.compile(r"\b1 (character|item|digit)s")


class Mistake(NamedTuple):
    """A place in a value, and what is wrong there; `kind` is the type of pydantic's error."""

    path: Path
    problem: str
    kind: str


def problem_of(detail: Detail) -> str:
    """What is wrong, to be read after the name of the place."""
    kind, values = str(detail["type"]), detail.get("ctx") or {}
    if kind in _OURS:
        return str(detail["msg"]).removeprefix(_OURS[kind])
    if words := PATTERN_WORDS.get(str(values.get("pattern"))):
        sentence = words
    elif kind in WRONG_TYPES:
        sentence = f"must be {WRONG_TYPES[kind]}"
    elif kind in _SENTENCES:
        sentence = _ONE.sub(r"1 \1", _SENTENCES[kind].format(**values))
    elif _DATES.match(kind):
        sentence = "must be a date such as 2026-12-01, or a time such as 2026-12-01T00:00:00Z"
    else:
        sentence = "is not valid"
    return f"its name {sentence}" if detail["loc"][-1:] == (_KEY,) else sentence


def mistakes_in(details: Sequence[Detail], value: Any) -> list[Mistake]:
    """One mistake for each place in the value that has errors.

    Errors about other members of a union than the one that was meant are left out.
    """
    found: dict[Path, list[Detail]] = {}
    for detail in details:
        found.setdefault(_path(detail, value), []).append(detail)
    return [
        Mistake(path, _of_all(at_path), str(at_path[0]["type"]))
        for path, at_path in found.items()
        if not _is_noise(path, at_path, found)
    ]


def _of_all(details: Sequence[Detail]) -> str:
    other = [detail for detail in details if detail["type"] not in WRONG_TYPES]
    if other:
        return problem_of(other[0])
    types = dict.fromkeys(WRONG_TYPES[detail["type"]] for detail in details)
    return problem_of(details[0]) if len(types) == 1 else f"must be {' or '.join(types)}"


def _path(detail: Detail, value: Any) -> Path:
    """`("messages", 0, "content", "list[…]", 0, "text", "text")` -> `messages.0.content.0.text`.

    Pydantic puts union members into the path. Users do not know them: only names that are in the value, or
    missing from it, are kept.
    """
    parts = detail["loc"]
    named: list[str | int] = []
    tagged = False
    last = len(parts) - 1
    for index, part in enumerate(parts):
        names_a_field = index == last and detail["type"] in _NAMES_A_FIELD
        is_tag = _is_tag(part, value) and not tagged
        if _has(value, part) and not is_tag:
            value, tagged = value[part], False
        elif not names_a_field:
            tagged = tagged or is_tag
            continue
        named.append(part)
    return tuple(named)


def _has(value: Any, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _is_tag(part: str | int, value: Any) -> bool:
    return isinstance(value, dict) and part == value.get("type")


def _is_noise(path: Path, details: Sequence[Detail], found: Mapping[Path, Any]) -> bool:
    """Whether these are type errors of other union members than the one that was meant."""
    wrong_type = all(detail["type"] in WRONG_TYPES for detail in details)
    return wrong_type and any(other[: len(path)] == path != other for other in found)
