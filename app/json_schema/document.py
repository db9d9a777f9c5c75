"""SchemaDocument: an untrusted schema within limits and without external references."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_json

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

_REFERENCES = {"$ref", "$dynamicRef", "$recursiveRef"}
_MAX_POINTER_CHARS = 200


class SchemaUnusable(Exception):
    """A schema cannot be used. `where` is a JSON pointer into it; its sender sees both."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"{where} {reason}")


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """A schema as JSON, and its dialect."""

    dialect: int
    text: bytes

    @classmethod
    def of(cls, schema: dict[str, Any]) -> "SchemaDocument":
        """Check limits and references; raises `SchemaUnusable`. Takes a few milliseconds at most."""
        _Inspection().inspect(schema)
        # Without its own id: references into the document begin with #.
        plain = {name: value for name, value in schema.items() if name not in {"$id", "$schema"}}
        try:
            text = to_json(plain)
        except (PydanticSerializationError, ValueError) as error:
            raise SchemaUnusable("#", "cannot be written as JSON") from error
        if len(text) > MAX_BYTES:
            raise _too_large()
        return cls(_dialect(schema.get("$schema")), text)


class _Node(NamedTuple):
    """A value and the path to it, which is only needed in errors."""

    value: Any
    name: str | int = ""
    parent: "_Node | None" = None

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
            if not level:
                return
            level = [below for node in level for below in self._below(node)]
        raise SchemaUnusable(level[0].pointer(), f"is nested deeper than {MAX_DEPTH} levels")

    def _below(self, node: _Node) -> Iterator[_Node]:
        match node.value:
            case dict() as members:
                for name, value in members.items():
                    below = _Node(value, name, node)
                    self._count(name)
                    self._check_member(below)
                    yield below
            case list() as items:
                for index, item in enumerate(items):
                    self._count(item)
                    yield _Node(item, index, node)

    def _count(self, text: Any) -> None:
        self._values += 1
        self._chars += len(text) if isinstance(text, str) else 0
        if self._values > MAX_VALUES:
            raise SchemaUnusable("#", f"holds more than {MAX_VALUES} values")
        if self._chars > MAX_BYTES:
            raise _too_large()

    def _check_member(self, node: _Node) -> None:
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
            case _, str(text):
                self._chars += len(text)

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


def _dialect(uri: Any) -> int:
    return DIALECTS[uri.rstrip("#")] if isinstance(uri, str) else 0


def _too_large() -> SchemaUnusable:
    return SchemaUnusable("#", f"is larger than {MAX_BYTES} bytes")
