from typing import Any

import pytest

from app.platform.json_schema.document import SchemaUnusable
from app.tools.argument_schema import argument_schema

PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {"a.b-c_1": {"anyOf": [{"type": "string"}]}},
    "required": ["a.b-c_1"],
}


def test_a_plain_schema_stays_as_it_is() -> None:
    assert argument_schema(PLAIN) == (PLAIN, "")


@pytest.mark.parametrize("name", ["anyOf", "oneOf", "allOf"])
def test_alternatives_at_the_root_move_to_the_description(name: str) -> None:
    shown, note = argument_schema({"properties": PLAIN["properties"], name: [{"required": ["a"]}]})

    assert shown == {"type": "object", "properties": PLAIN["properties"]}
    assert note.endswith(f'{{"{name}": [{{"required": ["a"]}}]}}')


def test_a_description_does_not_grow_without_limit() -> None:
    assert argument_schema({"anyOf": [{"const": "x" * 9_999}]}) == ({"type": "object"}, "")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": ["object", "null"]},
        {"$ref": "#/$defs/nothing"},
        {"$ref": "#"},
        {"type": "object", "properties": {"filter[x]": {}}},
        {"type": "object", "properties": {"": {}}},
        {"type": "object", "properties": {"x" * 65: {}}},
    ],
)
def test_what_no_model_takes_is_unusable(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaUnusable):
        argument_schema(schema)


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"q": {}}}}},
            {"type": "object", "properties": {"q": {}}, "$defs": {"a": {"properties": {"q": {}}}}},
        ),
        (
            {"oneOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {}}}], "$defs": {"a": PLAIN}},
            {"type": "object", "properties": {**PLAIN["properties"], "b": {}}, "$defs": {"a": PLAIN}},
        ),
    ],
)
def test_what_has_another_form_gets_it(schema: dict[str, Any], shown: dict[str, Any]) -> None:
    assert argument_schema(schema)[0] == shown
