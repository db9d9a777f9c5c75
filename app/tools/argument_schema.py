"""The schema of a tool's arguments as APIs of models take it; pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.platform.json_schema.document import SchemaUnusable
from app.platform.json_schema.pointers import resolved
from runtally.tools.tool import ARGUMENT_NAME

_NOT_AT_ROOT = ("anyOf", "oneOf", "allOf")
"""What the Messages API does not take at the root; one such tool makes it refuse the whole request."""

_MOST_CHARS = 5_000
_MOST_REFERENCES = 10


def argument_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The schema without what the API does not take, and a text about that for the tool's description.

    The arguments are checked against the schema as it was. Raises `SchemaUnusable`.
    """
    whole = _without_reference(schema)
    if whole.get("type", "object") != "object":
        raise SchemaUnusable("#/type", "must be object")
    left_out = {name: whole[name] for name in _NOT_AT_ROOT if name in whole}
    shown = {name: value for name, value in whole.items() if name not in left_out} | {"type": "object"}
    if left_out:
        # Otherwise the model would know the arguments from the description only.
        properties = dict(_properties(left_out, whole)) | _object(whole.get("properties"))
        shown |= {"properties": properties} if properties else {}
    for name in _object(shown.get("properties")):
        if not ARGUMENT_NAME.fullmatch(name):
            raise SchemaUnusable("#/properties", f"has a name that no model takes: {name[:64]!r}")
    return shown, _described(left_out)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _without_reference(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with what its root refers to."""
    for _ in range(_MOST_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        target = resolved(schema, reference)
        if not isinstance(target, dict):
            raise SchemaUnusable("#/$ref", "refers to nothing")
        schema = {**target, **{name: value for name, value in schema.items() if name != "$ref"}}
    raise SchemaUnusable("#/$ref", "refers to itself")


def _properties(left_out: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The properties of all alternatives; a later one of the same name replaces an earlier one."""
    for members in left_out.values():
        for member in members if isinstance(members, list) else ():
            part = member
            if isinstance(member, dict) and isinstance(member.get("$ref"), str):
                part = resolved(root, member["$ref"])
            if isinstance(part, dict) and isinstance(part.get("properties"), dict):
                yield from part["properties"].items()


def _described(left_out: dict[str, Any]) -> str:
    if not left_out or len(text := json.dumps(left_out, ensure_ascii=False)) > _MOST_CHARS:
        return ""
    return f"\n\nThe arguments must also match this JSON schema: {text}"
