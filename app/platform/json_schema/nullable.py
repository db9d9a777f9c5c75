"""The keyword `nullable` of OpenAPI 3.0, which generators write where null is allowed; pure."""

from collections.abc import Mapping
from typing import Any

from app.platform.json_schema.subschemas import with_subschemas

_NULL = {"type": "null"}
_ABOUT = ("title", "description", "default", "$defs", "definitions", "$schema", "$id")
_ALTERNATIVES = {"enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if"}
"""Keywords that may refuse null, whatever `type` says."""


def with_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema, in which each part with `nullable: true` allows null by other keywords."""
    changed = with_subschemas(schema, lambda each: with_null(each) if isinstance(each, dict) else each)
    return _allowing_null(changed) if changed.pop("nullable", False) is True else changed


def _allowing_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str) and not _ALTERNATIVES & schema.keys():
        return {**schema, "type": list(dict.fromkeys([kind, "null"]))}
    about = {name: schema[name] for name in _ABOUT if name in schema}
    constraints = {name: value for name, value in schema.items() if name not in about}
    return {**about, "anyOf": [constraints, _NULL]}
