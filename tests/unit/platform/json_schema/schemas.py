"""Schemas nobody should have to check."""

from typing import Any

from app.platform.json_schema.document import SchemaDocument
from app.platform.json_schema.model_schema import ModelSchema, model_schema


def a_bomb(depth: int = 40) -> dict[str, Any]:
    """A small schema that takes 2 to the power of its depth steps."""
    definitions: dict[str, Any] = {
        f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(depth)
    }
    definitions[f"d{depth}"] = {"type": "string"}
    return {"type": "object", "$defs": definitions, "allOf": [{"$ref": "#/$defs/d0"}]}


def nested(depth: int) -> dict[str, Any]:
    """A schema within a schema, and so on."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def model_schema_of(schema: dict[str, Any]) -> ModelSchema:
    """The model schema of a schema that is usable."""
    return model_schema(SchemaDocument.of(schema))
