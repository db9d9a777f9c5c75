"""The OpenAPI document in the form that every generator and linter reads; pure.

Pydantic and FastAPI write what the specification allows and some programs do not understand: a title for
each property, compositions of one schema, operations without `security` that need none.
"""

from collections.abc import Iterator
from typing import Any, Final

_COMPOSITIONS: Final = ("anyOf", "oneOf", "allOf")
_LISTS: Final = (*_COMPOSITIONS, "prefixItems")
_NAMED: Final = ("properties", "$defs", "patternProperties", "dependentSchemas")
_SINGLE: Final = ("items", "additionalProperties", "not", "propertyNames", "contains", "contentSchema")


def make_portable(document: dict[str, Any]) -> None:
    """Rewrite the schemas of a document in place; their meaning stays."""
    components = document["components"]["schemas"]
    for name, schema in components.items():
        simplify(schema)
        # Some generators name their classes by it, so it must be unique.
        schema["title"] = name
    for operation in _operations(document):
        operation.setdefault("security", [])
        for part in (*operation.get("parameters", ()), *_contents(operation)):
            if "schema" in part:
                simplify(part["schema"])


def simplify(schema: dict[str, Any]) -> None:
    """Remove titles and compositions of a single schema from a schema and the schemas in it, in place."""
    for each in _parts(schema):
        simplify(each)
    schema.pop("title", None)
    if "$ref" in schema and schema.get("additionalProperties") is True:
        # Of FastAPI, for a body that the application validates itself.
        del schema["type"], schema["additionalProperties"]
    for keyword in _COMPOSITIONS:
        if len(schema.get(keyword, ())) == 1:
            _merge_single(schema, keyword)


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas directly in a schema; not those that are only true or false."""
    parts = [
        *(each for keyword in _LISTS for each in schema.get(keyword, ())),
        *(each for keyword in _NAMED for each in schema.get(keyword, {}).values()),
        *(schema.get(keyword) for keyword in _SINGLE),
    ]
    yield from (part for part in parts if isinstance(part, dict))


def _merge_single(schema: dict[str, Any], keyword: str) -> None:
    """Replace a composition of one schema by that schema, unless both have the same keyword."""
    (only,) = schema[keyword]
    if not (only.keys() & schema.keys()):
        del schema[keyword]
        schema |= only


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def _contents(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
        yield from holder.get("content", {}).values()
