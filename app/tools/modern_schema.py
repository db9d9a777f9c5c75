"""JSON schemas of older drafts in the form of draft 2020-12, the only one that APIs of models take; pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from app.platform.json_schema.document import MAX_DEPTH, SchemaUnusable, pointer
from app.platform.json_schema.pointers import child, parts_of, reference_by, resolved
from app.platform.json_schema.subschemas import OF_LISTS, OF_NAMES, SINGLE, schemas_in

OLDER_DRAFTS = (
    "http://json-schema.org/draft-0",
    "https://json-schema.org/draft-0",
    "http://json-schema.org/schema",
    "https://json-schema.org/draft/2019-09/",
)
"""The beginnings of `$schema` in them."""

_OF_SCHEMAS = OF_NAMES - {"dependencies"}
_LISTS = OF_LISTS - {"items"}
_RENAMED = {"$recursiveRef": "$ref"}
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_NEW_NAMES = {
    ("items", True): "prefixItems",
    ("additionalItems", True): "items",
    ("dependencies", True): "dependentSchemas",
    ("dependencies", False): "dependentSchemas",
}
"""What a keyword with a place for schemas is called now, by whether `items` beside it is a list."""

_Holds: TypeAlias = Literal["keywords", "schemas", "data"]
"""What the names at a place of a schema mean."""


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
    _require_references(modern, plain)
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
    return _modern(value, depth) if name in SINGLE else value


def _dependencies(members: Mapping[str, Any], depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    names = {name: value for name, value in members.items() if isinstance(value, list)}
    schemas = {name: _modern(value, depth) for name, value in members.items() if name not in names}
    if names:
        yield "dependentRequired", names
    if schemas:
        yield "dependentSchemas", schemas


def _require_references(modern: dict[str, Any], older: Mapping[str, Any]) -> None:
    """Let references follow the keywords that have another name now; raises `SchemaUnusable`."""
    for path, schema in schemas_in(modern):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if isinstance(reference, str) and reference.startswith("#/"):
            schema["$ref"] = _renamed(reference, older)
            if resolved(modern, schema["$ref"]) is None:
                raise SchemaUnusable(pointer([*path, "$ref"]), "refers to nothing")


def _renamed(reference: str, older: Mapping[str, Any]) -> str:
    """The reference to the same place in the modern form of the schema `older`."""
    parts = parts_of(reference)
    place: Any = older
    holds: _Holds = "keywords"
    for index, part in enumerate(parts):
        below = child(place, part)
        if holds == "keywords":
            has_list = isinstance(place, dict) and isinstance(place.get("items"), list)
            parts[index] = _NEW_NAMES.get((part, has_list), part)
        holds = _held_below(holds, part, is_list=isinstance(below, list))
        place = below
    return reference if parts == parts_of(reference) else reference_by(parts)


def _held_below(holds: _Holds, name: str, *, is_list: bool) -> _Holds:
    if holds != "keywords":
        return "keywords" if holds == "schemas" else "data"
    if name in _OF_SCHEMAS | _LISTS or name == "dependencies" or (name == "items" and is_list):
        return "schemas"
    return "keywords" if name in SINGLE else "data"
