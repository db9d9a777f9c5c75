"""Schemas of older drafts in today's form."""

from typing import Any

import pytest

from app.platform.json_schema.document import SchemaUnusable
from app.tools.modern_schema import modern_schema

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
TODAY = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("older", "modern"),
    [
        ({"$schema": TODAY, "type": ["null", "object"]}, {"$schema": TODAY, "type": "object"}),
        ({"$schema": DRAFT_4, "id": "x", "type": "object"}, {"type": "object"}),
        ({"items": [{}, {"items": [{}]}]}, {"prefixItems": [{}, {"prefixItems": [{}]}]}),
        ({"items": [{}], "additionalItems": False}, {"prefixItems": [{}], "items": False}),
        ({"items": {}, "additionalItems": False}, {"items": {}}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"minimum": 1, "exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        (
            {"properties": {"a": {"required": True}}, "required": ["a"]},
            {"properties": {"a": {}}, "required": ["a"]},
        ),
        (
            {"dependencies": {"a": ["b"], "c": {"items": [{}]}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"prefixItems": [{}]}}},
        ),
        # Names and values that only look like keywords.
        (
            {"properties": {"items": {"const": {"items": [1]}}}},
            {"properties": {"items": {"const": {"items": [1]}}}},
        ),
        ({"$schema": TODAY, "items": []}, {"$schema": TODAY, "items": []}),
        ({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {}}},) * 2,
        ({"$ref": "#/definitions/a%20b", "definitions": {"a b": {}}},) * 2,
        # What only looks like a reference.
        ({"properties": {"a": {"const": {"$ref": "#/no"}, "default": [{"$ref": "#/no"}]}}},) * 2,
        ({"properties": {"$ref": {"type": "string"}}},) * 2,
        # References to places that have another name now.
        (
            {
                "items": [{}, {"$ref": "#/items/0"}],
                "additionalItems": {"$ref": "#/additionalItems/not", "not": {}},
            },
            {"prefixItems": [{}, {"$ref": "#/prefixItems/0"}], "items": {"$ref": "#/items/not", "not": {}}},
        ),
        (
            {"properties": {"items": {"$ref": "#/dependencies/a"}}, "dependencies": {"a": {}}},
            {"properties": {"items": {"$ref": "#/dependentSchemas/a"}}, "dependentSchemas": {"a": {}}},
        ),
        (
            {"definitions": {"a b": {"items": [{}]}, "c": {"$ref": "#/definitions/a%20b/items/0"}}},
            {
                "definitions": {
                    "a b": {"prefixItems": [{}]},
                    "c": {"$ref": "#/definitions/a%20b/prefixItems/0"},
                }
            },
        ),
        ({"$ref": "#/properties/items", "properties": {"items": {}}},) * 2,
    ],
)
def test_a_schema_in_its_modern_form(older: dict[str, Any], modern: dict[str, Any]) -> None:
    assert modern_schema(older) == modern


@pytest.mark.parametrize("name", ["definitions/b", "items/0", "items/" + "9" * 5_000, "properties/a/x/y"])
def test_a_reference_to_nothing_is_unusable(name: str) -> None:
    with pytest.raises(SchemaUnusable, match="#/properties/a/\\$ref refers to nothing"):
        modern_schema({"properties": {"a": {"$ref": f"#/{name}"}}, "items": []})


def test_a_schema_that_is_nested_too_deeply_is_unusable() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"not": schema}

    with pytest.raises(SchemaUnusable, match="deeper"):
        modern_schema(schema)
