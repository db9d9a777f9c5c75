"""Where the keywords of all drafts have schemas, names and data; pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

OF_NAMES: Final = frozenset(
    {
        *("properties", "patternProperties", "$defs", "definitions"),
        *("dependentSchemas", "dependencies"),
    }
)
"""Keywords with objects whose members are schemas."""

OF_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
SINGLE: Final = frozenset(
    {
        *("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "items"),
        *("unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"),
    }
)
OF_DATA: Final = frozenset({"const", "enum", "default", "examples", "example"})
"""Keywords with values, which may look like schemas."""


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The schemas directly within a schema, each with the parts of the pointer to it."""
    for name, value in schema.items():
        if name in OF_NAMES and isinstance(value, dict):
            yield from (((name, key), each) for key, each in value.items())
        elif name in OF_LISTS and isinstance(value, list):
            yield from (((name, str(index)), each) for index, each in enumerate(value))
        elif name in SINGLE:
            yield (name,), value


def schemas_in(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The schema and all within it, each with the parts of the pointer to it."""
    if isinstance(schema, bool | dict):
        yield path, schema
    if isinstance(schema, dict):
        for below, each in subschemas(schema):
            yield from schemas_in(each, (*path, *below))


def with_subschemas(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy with another schema in the place of each directly within it."""
    return {name: _changed(name, value, change) for name, value in schema.items()}


def _changed(name: str, value: Any, change: Callable[[Any], Any]) -> Any:
    if name in OF_NAMES and isinstance(value, dict):
        return {key: change(each) for key, each in value.items()}
    if name in OF_LISTS and isinstance(value, list):
        return [change(each) for each in value]
    return change(value) if name in SINGLE else value
