"""The schema of a tool's arguments as APIs of models take it; pure."""

import json
import re
from collections.abc import Mapping
from typing import Any

from app.json_schema.document import SchemaUnusable

_NOT_AT_ROOT = ("anyOf", "oneOf", "allOf")
"""What the Messages API does not take at the root; one such tool makes it refuse the whole request."""

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MOST_CHARS = 5_000


def model_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The schema without what the API does not take, and a text about that for the tool's description.

    The arguments are checked against the schema as it was. Raises `SchemaUnusable`.
    """
    if schema.get("type", "object") != "object":
        raise SchemaUnusable("#/type", "must be object")
    properties = schema.get("properties")
    for name in properties if isinstance(properties, dict) else ():
        if not _PROPERTY.fullmatch(name):
            raise SchemaUnusable("#/properties", f"has a name that no model takes: {name[:64]!r}")
    left_out = {name: schema[name] for name in _NOT_AT_ROOT if name in schema}
    shown = {name: value for name, value in schema.items() if name not in left_out} | {"type": "object"}
    return shown, _described(left_out)


def _described(left_out: dict[str, Any]) -> str:
    if not left_out or len(text := json.dumps(left_out, ensure_ascii=False)) > _MOST_CHARS:
        return ""
    return f"\n\nThe arguments must also match this JSON schema: {text}"
