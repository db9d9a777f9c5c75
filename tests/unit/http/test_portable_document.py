"""The OpenAPI document has the form that generators of other people read; see `portable.py`."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.http.openapi.portable import simplify
from tests.api_document import api_document

# Of JSON Schema 2020-12, of OpenAPI 3.1, and `contentEncoding`'s older form.
KEYWORDS = {
    *("type", "enum", "const", "$ref", "description", "default", "example", "examples", "title"),
    *("properties", "required", "additionalProperties", "items", "prefixItems", "propertyNames"),
    *("anyOf", "oneOf", "allOf", "not", "discriminator", "format", "pattern", "contentEncoding"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "writeOnly", "deprecated"),
}


def schemas_in(schema: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schema and all schemas in it, with their places."""
    yield where, schema
    for keyword in ("properties",):
        for name, each in schema.get(keyword, {}).items():
            yield from schemas_in(each, f"{where}.{name}")
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for each in schema.get(keyword, ()):
            yield from schemas_in(each, f"{where}.{keyword}")
    for keyword in ("items", "additionalProperties", "not", "propertyNames"):
        if isinstance(schema.get(keyword), dict):
            yield from schemas_in(schema[keyword], f"{where}.{keyword}")


def every_schema(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in document["components"]["schemas"].items():
        yield from schemas_in(schema, name)
    for path in document["paths"].values():
        for operation in path.values():
            where = operation["operationId"]
            for parameter in operation.get("parameters", ()):
                yield from schemas_in(parameter["schema"], f"{where}.{parameter['name']}")
            for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
                for content in holder.get("content", {}).values():
                    yield from schemas_in(content.get("schema", {}), where)


def test_schemas_are_plain() -> None:
    document = api_document()

    for where, schema in every_schema(document):
        assert schema.keys() <= KEYWORDS, where
        for keyword in ("anyOf", "oneOf", "allOf"):
            assert len(schema.get(keyword, (1, 2))) > 1, where
        if {"pattern", "minLength", "maxLength", "format"} & schema.keys():
            assert schema["type"] == "string" or "string" in schema["type"], where
        if "$ref" in schema:
            assert schema.keys() <= {"$ref", "default", "description"}, where
    components = document["components"]["schemas"]
    assert {name: schema["title"] for name, schema in components.items()} == {
        name: name for name in components
    }


def test_every_operation_says_how_it_is_secured() -> None:
    document = api_document()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    declared = {tag["name"] for tag in document["tags"]}

    assert document["servers"]
    assert all(set(operation["tags"]) <= declared for operation in operations)
    open_to_all = {operation["operationId"] for operation in operations if operation["security"] == []}
    assert open_to_all == {
        *("alive", "ready", "who_is_signed_in", "list_sign_in_methods", "sign_in", "sign_out"),
        *("mcp_resource_metadata", "anthropic_login_metadata"),
        *("begin_anthropic_login", "get_anthropic_token", "revoke_anthropic_token"),
    }


@pytest.mark.parametrize(
    ("given", "simple"),
    [
        ({"title": "A", "type": "string"}, {"type": "string"}),
        ({"anyOf": [{"type": "string", "title": "A"}]}, {"type": "string"}),
        ({"anyOf": [{}], "description": "any"}, {"description": "any"}),
        ({"allOf": [{"anyOf": [{"const": 1}]}]}, {"const": 1}),
        ({"description": "outer", "allOf": [{"description": "inner"}]},) * 2,
        ({"anyOf": [{"const": 1}, {"const": 2}]},) * 2,
        ({"properties": {"title": {"title": "T", "const": 1}}}, {"properties": {"title": {"const": 1}}}),
        ({"items": {"additionalProperties": {"title": "B"}}}, {"items": {"additionalProperties": {}}}),
        ({"type": "object", "additionalProperties": True, "$ref": "#/a"}, {"$ref": "#/a"}),
        ({"default": {"title": "kept"}},) * 2,
    ],
)
def test_simplifying(given: dict[str, Any], simple: dict[str, Any]) -> None:
    schema = {**given}

    simplify(schema)

    assert schema == simple
