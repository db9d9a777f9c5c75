"""SchemaDocument: an untrusted schema within limits and without external references."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from app.platform.json_schema.nullable import with_null
from app.platform.json_schema.subschemas import OF_DATA, OF_NAMES, schemas_in

MAX_BYTES = 262_144
MAX_DEPTH = 64
MAX_VALUES = 20_000
MAX_REFERENCES = 1_000
MAX_PATTERN_CHARS = 1_000

DIALECTS: dict[str, int] = {
    "https://json-schema.org/draft/2020-12/schema": 0,
    "https://json-schema.org/draft/2019-09/schema": 1,
    "http://json-schema.org/draft-07/schema": 2,
    "http://json-schema.org/draft-06/schema": 3,
}
"""The supported values of `$schema` and their numbers in the worker; the first is the default."""

DRAFT_7: Final = 2
"""From this number on, keywords beside `$ref` are ignored, and `$defs` is none."""

_DRAFT_2019: Final = 1

_REFERENCES = {"$ref", "$dynamicRef", "$recursiveRef"}
_MAX_POINTER_CHARS = 200

_Holds: TypeAlias = Literal["keywords", "schemas", "data"]
"""What the names in an object mean."""


class SchemaUnusable(Exception):
    """A schema cannot be used. `where` is a JSON pointer into it; its sender sees both."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"{where} {reason}")


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """A schema as JSON, and its dialect; made once for all that is done with the schema."""

    dialect: int
    text: bytes
    plain: dict[str, Any] = field(compare=False, repr=False)
    """The schema itself, in which null is allowed by other keywords than `nullable`."""

    @classmethod
    def of(cls, schema: dict[str, Any]) -> "SchemaDocument":
        """Check limits and references; raises `SchemaUnusable`. Takes a few milliseconds at most."""
        _Inspection().inspect(schema)
        # Without its own id: references into the document begin with #.
        plain = with_null({name: value for name, value in schema.items() if name not in {"$id", "$schema"}})
        dialect = dialect_of(schema)
        text = _as_json(plain)
        if dialect >= DRAFT_7 and "$defs" in plain:
            # Otherwise what is in it would not be checked to be schemas.
            text = _as_json({**plain, "definitions": _with_checked(plain["$defs"], plain.get("definitions"))})
        return cls(dialect, text, plain)


def dialect_of(schema: Mapping[str, Any]) -> int:
    """The number of the dialect of a schema within the limits, which need not name it."""
    if isinstance(uri := schema.get("$schema"), str):
        return DIALECTS[uri.rstrip("#")]
    # Only older drafts have lists of `items`; the latest of them has most of the other keywords.
    lists = (isinstance(each, dict) and isinstance(each.get("items"), list) for _, each in schemas_in(schema))
    return _DRAFT_2019 if any(lists) else 0


def _as_json(schema: dict[str, Any]) -> bytes:
    try:
        text = to_json(schema)
    except (PydanticSerializationError, ValueError) as error:
        raise SchemaUnusable("#", "cannot be written as JSON") from error
    if len(text) > MAX_BYTES:
        raise _too_large()
    return text


def _with_checked(members: Any, definitions: Any) -> Any:
    """The definitions and one more that has these as its own."""
    if not isinstance(definitions, dict | None):
        return definitions
    definitions = definitions or {}
    return {**definitions, "$" * (1 + max(map(len, definitions), default=0)): {"definitions": members}}


class _Node(NamedTuple):
    """A value and the path to it, which is only needed in errors."""

    value: Any
    holds: _Holds = "keywords"
    name: str | int = ""
    parent: "_Node | None" = None

    def below(self, name: str | int, value: Any) -> "_Node":
        holds = self.holds
        if isinstance(name, str) and holds != "data":
            in_schema = holds == "keywords"
            holds = "keywords"
            if in_schema and name in OF_NAMES:
                holds = "schemas"
            elif in_schema and name in OF_DATA:
                holds = "data"
        return _Node(value, holds, name, self)

    def pointer(self) -> str:
        names: list[str] = []
        node: _Node | None = self
        while node is not None and node.parent is not None:
            names.append(str(node.name))
            node = node.parent
        return pointer(reversed(names))


class _Inspection:
    """Walks a schema level by level, counts its parts and stops at the first violation."""

    def __init__(self) -> None:
        self._values = 0
        self._chars = 0
        self._references = 0

    def inspect(self, schema: dict[str, Any]) -> None:
        level = [_Node(schema)]
        for _ in range(MAX_DEPTH + 1):
            level = [below for node in level for below in self._below(node)]
        if level:
            raise SchemaUnusable(level[0].pointer(), f"is nested deeper than {MAX_DEPTH} levels")

    def _below(self, node: _Node) -> Iterator[_Node]:
        match node.value:
            case dict() as members:
                for name, value in members.items():
                    self._count(name)
                    below = node.below(name, value)
                    if node.holds == "keywords":
                        self._check_keyword(below)
                    yield below
            case list() as items:
                for index, item in enumerate(items):
                    self._count("")
                    yield node.below(index, item)
            case str(text):
                self._count_chars(text)
            case int() | float() as number if not _is_double(number):
                raise SchemaUnusable(node.pointer(), "is beyond the range of a double")

    def _count(self, name: str) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise SchemaUnusable("#", f"contains more than {MAX_VALUES} values")
        self._count_chars(name)

    def _count_chars(self, text: str) -> None:
        self._chars += len(text)
        if self._chars > MAX_BYTES:
            raise _too_large()

    def _check_keyword(self, node: _Node) -> None:
        match node.name, node.value:
            case str(name), str(target) if name in _REFERENCES:
                self._references += 1
                self._check_reference(node, target)
            case "$id", str() if node.parent is not None and node.parent.parent is not None:
                raise SchemaUnusable(node.pointer(), "must not be used below the root; leave it out")
            case "$schema", str(dialect) if dialect.rstrip("#") not in DIALECTS:
                raise SchemaUnusable(node.pointer(), f"must be one of {', '.join(DIALECTS)}")
            case "pattern", str(pattern):
                _check_pattern(node, pattern)
            case "patternProperties", dict() as members:
                for pattern in members:
                    _check_pattern(node, pattern)

    def _check_reference(self, node: _Node, target: str) -> None:
        if not target.startswith("#"):
            raise SchemaUnusable(node.pointer(), "must refer to a part of the same schema")
        if self._references > MAX_REFERENCES:
            raise SchemaUnusable(node.pointer(), f"is one of more than {MAX_REFERENCES} references")


def pointer(names: Any) -> str:
    """A JSON pointer as URL fragment, truncated to a readable length."""
    whole = "/".join(["#", *(str(name).replace("~", "~0").replace("/", "~1") for name in names)])
    return whole if len(whole) <= _MAX_POINTER_CHARS else f"{whole[:_MAX_POINTER_CHARS]}…"


def _check_pattern(node: _Node, pattern: str) -> None:
    if len(pattern) > MAX_PATTERN_CHARS:
        reason = f"has a regular expression of more than {MAX_PATTERN_CHARS} characters"
        raise SchemaUnusable(node.pointer(), reason)


def _is_double(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _too_large() -> SchemaUnusable:
    return SchemaUnusable("#", f"is larger than {MAX_BYTES} bytes")
