"""Strict JSON parsing: rejects values that cannot be stored or that parsers interpret differently."""

import json
import math
from typing import Any, NamedTuple

from app.errors import Invalid
from app.storable import is_storable

MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Images and texts are one value each, so no legitimate request has this many."""


class _Node(NamedTuple):
    """A value and its place in the document; the path is built only for error messages."""

    value: Any
    name: str | int
    parent: "_Node | None"

    def path(self) -> str:
        above = self.parent.path() if self.parent and self.parent.parent else ""
        return f"{above}.{self.name}" if above else str(self.name)


def read_json(text: bytes) -> Any:
    """Parse a JSON text; raises `Invalid` for input that lenient parsers accept.

    That is: duplicate names, NaN and infinities, U+0000, unpaired surrogates, too many levels or values.
    Raises `ValueError` or `RecursionError` for malformed JSON.
    """
    value = json.loads(
        # Of bytes Python guesses the encoding; the scan before this one counts only what is in UTF-8.
        text.decode("utf-8-sig", "surrogatepass"),
        object_pairs_hook=_unique_members,
        parse_constant=_reject_constant,
        parse_float=_parse_finite,
    )
    level, values = [_Node(value, "body", None)], 0
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return value
        values += sum(len(node.value) for node in level if isinstance(node.value, dict | list))
        if values > MAX_VALUES:
            raise Invalid.field("body", f"holds more than {MAX_VALUES} values")
        level = [below for node in level for below in _check_node(node)]
    raise Invalid.field("body", f"is nested deeper than {MAX_DEPTH} levels")


def _check_node(node: _Node) -> list[_Node]:
    """Check one value; return the values inside it."""
    match node.value:
        case str() as text if not is_storable(text):
            raise Invalid.field(node.path(), "contains U+0000 or an unpaired surrogate")
        case dict() as members:
            if not all(map(is_storable, members)):
                raise Invalid.field(node.path(), "has a name with U+0000 or an unpaired surrogate")
            return [_Node(value, name, node) for name, value in members.items()]
        case list() as items:
            return [_Node(value, index, node) for index, value in enumerate(items)]
        case _:
            return []


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise Invalid.field(name if is_storable(name) else "body", "is given twice")
        members[name] = value
    return members


def _reject_constant(word: str) -> Any:
    raise Invalid.field("body", f"{word} is not a JSON number")


def _parse_finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise Invalid.field("body", "holds a number that is too large")
    return number
