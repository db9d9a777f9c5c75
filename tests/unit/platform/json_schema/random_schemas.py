"""Random schemas of each dialect that clients may use, full of references, with random values."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import jsonschema_rs

from app.platform.json_schema.document import DIALECTS, SchemaDocument, SchemaUnusable
from app.platform.json_schema.model_schema import ModelSchema, model_schema

_VALIDATORS = (
    jsonschema_rs.Draft202012Validator,
    jsonschema_rs.Draft201909Validator,
    jsonschema_rs.Draft7Validator,
    jsonschema_rs.Draft6Validator,
)
_MEMBERS = ("a", "b", "ab", "x-a")
"""Values have no others: JavaScript cannot compare objects with a member `toString`."""

_NAMES = ("a", "b", "ab", "x-a", "constructor", "toString", "__proto__")
_PATTERNS = ("^a", "b$", "(?=a)", "^x-", "^.$", "a.", "\\ba", "__proto__")
_SCALARS = (None, True, False, 0, -0.0, 1, 1.0, 2, 0.5, "a", "b", "", "\u2028", "a\u2028", "aé", 2**53)
_REFERENCES = (
    *("#", "#/$defs/T", "#/$defs/U", "#/$defs/%54", "#/$defs/V", "#/definitions/W", "#an", "#an9"),
    *("#/properties/a", "#/properties/a/anyOf/0", "#/$defs/T/items", "#/$defs/T/prefixItems/0"),
    *("#/$defs/V/anyOf/0", "#/$defs/V/oneOf/1", "#/$defs/V/allOf/0", "#/$defs/V/not", "#/$defs/W~1x"),
    *("#/$defs/U/default", "#/$defs/U/const/properties/a", "#/$defs/U/properties/b", "#/$defs/__proto__"),
)


@dataclass(frozen=True, slots=True)
class RandomSchema:
    """A schema, its model schema, and what that accepts for the values that match the schema."""

    schema: dict[str, Any]
    shown: ModelSchema
    outputs: list[Any]


def random_schemas(seed: int, count: int) -> Iterator[RandomSchema]:
    """Those of so many random schemas that are usable and have a model schema."""
    source = _Source(Random(seed))  # noqa: S311 - nothing secret
    for _ in range(count):
        schema = source.document()
        try:
            document = SchemaDocument.of(schema)
            validator = _VALIDATORS[document.dialect](
                document.text.decode(),
                offline=True,
                validate_formats=False,
                pattern_options=jsonschema_rs.FancyRegexOptions(),
            )
            shown = model_schema(document)
        except (SchemaUnusable, ValueError, jsonschema_rs.ReferencingError):
            continue
        values = [value for value in (source.value(3) for _ in range(12)) if _is_valid(validator, value)]
        yield RandomSchema(
            schema,
            shown,
            [{"value": value} for value in values]
            if shown.is_wrapped
            else [value for value in values if isinstance(value, dict)],
        )


def _is_valid(validator: Any, value: Any) -> bool:
    try:
        return bool(validator.is_valid(value))
    except ValueError:
        # It refers to itself without end.
        return False


class _Source:
    """Makes schemas and values."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._has_lists = False

    def document(self) -> dict[str, Any]:
        """A schema of a random dialect, which it may name."""
        random = self._random
        dialect = random.choice([None, *DIALECTS])
        self._has_lists = dialect is not None and "2020" not in dialect
        pairs = "items" if self._has_lists else "prefixItems"
        definitions: dict[str, Any] = {
            "T": {"type": "array", pairs: [{"type": "string"}], "additionalProperties": {"type": "integer"}},
            "U": {
                "$anchor": "an",
                "default": {"type": "integer"},
                "properties": {"b": {"type": "string"}},
                **({"const": {"properties": {"a": {"x-y": 1}}}} if random.random() < 0.2 else {}),
            },
            "V": {
                "anyOf": [{"type": "integer"}, {"type": "object"}],
                "oneOf": [{"type": "object"}, {"type": "integer"}],
                "allOf": [{}],
                "not": {"type": "string"},
            },
            "W/x": self._schema(1),
            "__proto__": {"type": "string"},
        }
        named = {} if dialect is None else {"$schema": dialect}
        return {**self._schema(3), **named, "$defs": definitions, "definitions": {"W": self._schema(1)}}

    def value(self, depth: int) -> Any:
        """A value, often a small one."""
        kind = self._random.randrange(8 if depth else 5)
        if kind < 5:
            return self._random.choice(_SCALARS)
        inner = [self.value(depth - 1) for _ in range(self._random.randrange(3))]
        return inner if kind == 5 else dict(zip(self._random.sample(_MEMBERS, 2), inner, strict=False))

    def _schema(self, depth: int) -> dict[str, Any]:
        if depth == 0:
            return dict(self._leaf())
        schema: dict[str, Any] = {}
        for _ in range(self._random.randrange(1, 4)):
            schema |= self._random.choice(self._keywords())(depth - 1)
        return schema

    def _below(self, depth: int) -> Any:
        return self._random.random() < 0.5 if self._random.random() < 0.1 else self._schema(depth)

    def _leaf(self) -> dict[str, Any]:
        return self._random.choice(
            [
                {"type": "string"},
                {"type": ["integer", "null"]},
                {"type": "string", "nullable": True},
                {"pattern": self._random.choice(_PATTERNS)},
                {"$ref": self._random.choice(_REFERENCES)},
                {"const": self.value(1)},
                {"enum": [self.value(1), self.value(1), self.value(1)]},
                {},
            ]
        )

    def _keywords(self) -> list[Callable[[int], dict[str, Any]]]:
        choice, some = self._random.choice, self._random.randrange
        pairs = "items" if self._has_lists else "prefixItems"
        lists = ("anyOf", "oneOf", "allOf", pairs)
        single = ("additionalProperties", "items", "not", "contains", "propertyNames", "unevaluatedItems")
        return [
            *(
                [lambda _: {"type": choice(["object", "array", "string", "integer", ["object", "array"]])}]
                * 2
            ),
            *([lambda depth: {"properties": self._members(_NAMES, depth)}] * 3),
            lambda depth: {"patternProperties": self._members(_PATTERNS, depth)},
            *(
                [lambda depth: {choice(lists): [self._below(depth) for _ in range(some(1, 3))]}] * 4
                + [lambda depth: {choice(single): self._below(depth)}] * 4
            ),
            lambda depth: {name: self._below(depth) for name in ("if", "then", "else")},
            lambda _: {"required": self._random.sample(_NAMES, 1)},
            lambda _: {choice(("minItems", "maxItems", "minLength", "minContains")): some(3)},
            lambda _: {choice(("$ref", "$dynamicRef", "$recursiveRef")): choice(_REFERENCES)},
            lambda _: {"nullable": True},
            lambda depth: {choice(("dependencies", "dependentSchemas")): {"a": self._below(depth)}},
            lambda _: self._leaf(),
        ]

    def _members(self, names: tuple[str, ...], depth: int) -> dict[str, Any]:
        return {name: self._below(depth) for name in self._random.sample(names, self._random.randrange(1, 3))}
