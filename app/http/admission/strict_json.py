"""JSON bodies, read strictly: what the store would choke on, or two readers read differently, is refused."""

import json
import math
from typing import Any, NamedTuple

from app.errors import Invalid
from app.storable import is_storable

MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Images and texts are one value each; who sends more than this wants to keep the server busy."""


class _Node(NamedTuple):
    """A value and the way to it; the way is spelled out only where something is wrong."""

    value: Any
    name: str | int
    parent: "_Node | None"

    def path(self) -> str:
        above = self.parent.path() if self.parent and self.parent.parent else ""
        return f"{above}.{self.name}" if above else str(self.name)


def read_json(text: bytes) -> Any:
    """The value of a JSON text; raises `Invalid` for what plain JSON readers let pass.

    That is names given twice, numbers that are none, U+0000, half surrogate pairs, bottomless nesting,
    values beyond number. Raises `ValueError` or `RecursionError` for what is no JSON.
    """
    value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)
    level, values = [_Node(value, "body", None)], 0
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return value
        values += sum(len(node.value) for node in level if isinstance(node.value, dict | list))
        if values > MAX_VALUES:
            raise Invalid.field("body", f"holds more than {MAX_VALUES} values")
        level = [below for node in level for below in _checked(node)]
    raise Invalid.field("body", f"is nested deeper than {MAX_DEPTH} levels")


def _checked(node: _Node) -> list[_Node]:
    """Check one value; return those inside it."""
    match node.value:
        case str() as text if not is_storable(text):
            raise Invalid.field(node.path(), "holds U+0000 or half a surrogate pair")
        case dict() as members:
            if not all(map(is_storable, members)):
                raise Invalid.field(node.path(), "has a name with U+0000 or half a surrogate pair")
            return [_Node(value, name, node) for name, value in members.items()]
        case list() as items:
            return [_Node(value, index, node) for index, value in enumerate(items)]
        case _:
            return []


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise Invalid.field(name if is_storable(name) else "body", "is given twice")
        members[name] = value
    return members


def _no_number(word: str) -> Any:
    raise Invalid.field("body", f"{word} is not a JSON number")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise Invalid.field("body", "holds a number that is too large")
    return number
