"""JSON schemas of older drafts in the form of draft 2020-12, the only one that APIs of models take; pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.json_schema.document import MAX_DEPTH, SchemaUnusable, pointer

OLDER_DRAFTS = (
    "http://json-schema.org/draft-0",
    "https://json-schema.org/draft-0",
    "http://json-schema.org/schema",
    "https://json-schema.org/draft/2019-09/",
)
"""The beginnings of `$schema` in them."""

_OF_SCHEMAS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_LISTS = {"anyOf", "oneOf", "allOf", "prefixItems"}
_SINGLE = {
    *("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "items"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"),
}
_RENAMED = {"$recursiveRef": "$ref"}
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def modern_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema in today's form, without `$schema`, if it is one of an older draft or names none.

    For the arguments or the result of a tool, which are objects: so a type that may be one is `object`.
    Raises `SchemaUnusable` if it is nested too deeply, or a reference in it refers to nothing.
    """
    draft = schema.get("$schema")
    plain = {name: value for name, value in schema.items() if name not in {"$schema", "$id", "id"}}
    if isinstance(kinds := schema.get("type"), list) and "object" in kinds:
        plain["type"] = "object"
    if isinstance(draft, str) and not draft.startswith(OLDER_DRAFTS):
        return {**plain, "$schema": draft}
    modern = dict(_modern(plain, 0))
    _require_references(modern, modern, ())
    return modern


def _modern(schema: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise SchemaUnusable("#", f"is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(schema, dict):
        return schema
    return dict(
        each for name, value in schema.items() for each in _member(schema, name, value, depth=depth + 1)
    )


def _member(schema: Mapping[str, Any], name: str, value: Any, *, depth: int) -> Iterable[tuple[str, Any]]:
    """The keywords that one keyword of an older draft becomes."""
    match name, value:
        case ("items", list()):
            return [("prefixItems", [_modern(each, depth) for each in value])]
        case ("additionalItems", _):
            return [("items", _modern(value, depth))] if isinstance(schema.get("items"), list) else []
        case ("dependencies", dict()):
            return _dependencies(value, depth)
        case ("exclusiveMinimum" | "exclusiveMaximum", bool()):
            limit = schema.get(_EXCLUSIVE[name])
            return [(name, limit)] if value and limit is not None else []
        case ("required", bool()) | ("$recursiveAnchor", _):
            # In the oldest drafts a property said itself that it is required.
            return []
        case _:
            return [(_RENAMED.get(name, name), _below(name, value, depth))]


def _below(name: str, value: Any, depth: int) -> Any:
    if name in _OF_SCHEMAS and isinstance(value, dict):
        return {key: _modern(each, depth) for key, each in value.items()}
    if name in _LISTS and isinstance(value, list):
        return [_modern(each, depth) for each in value]
    return _modern(value, depth) if name in _SINGLE else value


def _dependencies(members: Mapping[str, Any], depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    names = {name: value for name, value in members.items() if isinstance(value, list)}
    schemas = {name: _modern(value, depth) for name, value in members.items() if name not in names}
    if names:
        yield "dependentRequired", names
    if schemas:
        yield "dependentSchemas", schemas


def resolved(schema: Mapping[str, Any], reference: str) -> Any:
    """The part of the schema that a reference such as `#/$defs/a` refers to; None if there is none."""
    part: Any = schema
    for name in reference.removeprefix("#").split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        if isinstance(part, dict) and key in part:
            part = part[key]
        elif isinstance(part, list) and key.isdecimal() and int(key) < len(part):
            part = part[int(key)]
        else:
            return None
    return part


def _require_references(part: Any, root: Mapping[str, Any], path: tuple[str, ...]) -> None:
    match part:
        case dict():
            reference = part.get("$ref")
            if (
                isinstance(reference, str)
                and reference.startswith("#/")
                and resolved(root, reference) is None
            ):
                raise SchemaUnusable(pointer([*path, "$ref"]), "refers to nothing")
            for name, value in part.items():
                _require_references(value, root, (*path, name))
        case list():
            for index, value in enumerate(part):
                _require_references(value, root, (*path, str(index)))
