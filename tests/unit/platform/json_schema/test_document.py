from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.platform.json_schema.document import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_PATTERN_CHARS,
    MAX_REFERENCES,
    MAX_VALUES,
    SchemaDocument,
    SchemaUnusable,
)
from tests.unit.platform.json_schema.schemas import nested

OUTSIDE = [
    *("http://127.0.0.1:9/schema.json", "//127.0.0.1/schema.json", "file:///etc/hostname"),
    *("other.json#/$defs/a", "%23/$defs/a", "?a#", "urn:uuid:00000000-0000-0000-0000-000000000000", ""),
]


def around(inner: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema with something in each place where a schema can be, or something like one."""
    return [
        inner,
        {"properties": {"a": inner}},
        {"anyOf": [{"type": "string"}, inner]},
        {"definitions": {"a": {"dependencies": {"b": inner}}}},
        {"$defs": {"a": {"dependentSchemas": {"b": inner}}}},
        {"if": inner, "then": inner, "else": inner},
        {"items": [inner]},
        {"unevaluatedProperties": inner},
        {"patternProperties": {"^a": inner}},
        {"somethingUnknown": {"deeper": [inner]}},
    ]


@pytest.mark.parametrize("target", OUTSIDE)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
def test_external_references_are_refused(keyword: str, target: str) -> None:
    for schema in around({keyword: target}):
        with pytest.raises(SchemaUnusable, match="must refer to a part of the same schema"):
            SchemaDocument.of(schema)


def test_an_id_below_the_root_is_refused() -> None:
    for schema in around({"$id": "http://127.0.0.1:9/", "$ref": "#/a"})[1:]:
        with pytest.raises(SchemaUnusable, match="must not be used below the root"):
            SchemaDocument.of(schema)


@given(st.text(max_size=20))
def test_only_references_to_fragments_are_accepted(target: str) -> None:
    try:
        SchemaDocument.of({"allOf": [{"$ref": target}]})
    except SchemaUnusable:
        assert not target.startswith("#") or not target.isprintable()
    else:
        assert target.startswith("#")


def test_a_schemas_own_id_and_dialect_are_removed() -> None:
    schema = {"$id": "https://example.org/x", "$schema": "http://json-schema.org/draft-07/schema#"}

    document = SchemaDocument.of({**schema, "type": "object"})

    assert (document.dialect, document.text) == (2, b'{"type":"object"}')


def test_an_unknown_dialect_is_refused() -> None:
    for schema in around({"$schema": "http://127.0.0.1:9/meta"}):
        with pytest.raises(SchemaUnusable, match=r"\$schema must be one of"):
            SchemaDocument.of(schema)


def test_properties_may_be_called_like_keywords() -> None:
    names = ("$ref", "$id", "$schema", "pattern", "patternProperties", "$dynamicRef")

    SchemaDocument.of({"properties": {name: {"type": "string"} for name in names}, "required": [*names]})


@pytest.mark.parametrize("keyword", ["const", "enum", "default", "examples"])
def test_data_may_look_like_a_schema(keyword: str) -> None:
    value = {
        "$ref": "http://127.0.0.1:9/",
        "$schema": "http://127.0.0.1:9/",
        "$id": "x",
        "properties": {"a": {"$ref": "x"}},
        "pattern": "a" * (MAX_PATTERN_CHARS + 1),
    }

    SchemaDocument.of({"properties": {"a": {keyword: [value] if keyword == "enum" else value}}})
    with pytest.raises(SchemaUnusable):
        SchemaDocument.of({"properties": {keyword: value}})


@pytest.mark.parametrize("depth", range(MAX_DEPTH - 2, MAX_DEPTH + 2))
def test_the_depth_is_exact(depth: int) -> None:
    # The type of the innermost schema is one level deeper.
    if depth < MAX_DEPTH:
        SchemaDocument.of(nested(depth))
        return
    with pytest.raises(SchemaUnusable, match="nested deeper"):
        SchemaDocument.of(nested(depth))


@pytest.mark.parametrize("number", [10**309, -(10**400), float("inf"), float("nan")])
def test_numbers_beyond_the_range_of_a_double_are_refused(number: float) -> None:
    for schema in ({"maximum": number}, {"enum": [{"a": [number]}]}):
        with pytest.raises(SchemaUnusable, match="double"):
            SchemaDocument.of(schema)
    SchemaDocument.of({"maximum": 10**308})


def test_lists_of_items_mean_an_older_dialect() -> None:
    pair: dict[str, Any] = {"properties": {"a": {"items": [{}]}}}

    assert SchemaDocument.of(pair).dialect == 1
    assert SchemaDocument.of({"$schema": "http://json-schema.org/draft-06/schema#", **pair}).dialect == 3
    assert SchemaDocument.of({"const": pair}).dialect == 0


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"description": "x" * (MAX_BYTES + 1)}, "larger than"),
        ({"enum": ["é" * (MAX_BYTES // 2)]}, "larger than"),
        ({"enum": list(range(MAX_VALUES + 1))}, "contains more than"),
        ({"allOf": [{"$ref": "#"}] * (MAX_REFERENCES + 1)}, "references"),
        ({"pattern": "a" * (MAX_PATTERN_CHARS + 1)}, "regular expression of more than"),
        ({"patternProperties": {"a" * (MAX_PATTERN_CHARS + 1): {}}}, "regular expression of more than"),
        ({"const": "\ud800"}, "cannot be written as JSON"),
    ],
    ids=["text", "bytes", "values", "references", "pattern", "patterns", "half a pair"],
)
def test_every_limit_is_enforced(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaUnusable, match=reason):
        SchemaDocument.of(schema)


def test_the_pointer_to_an_error_is_short() -> None:
    with pytest.raises(SchemaUnusable) as refused:
        SchemaDocument.of({"properties": {"a/b~c": {"$ref": "x"}}})
    assert refused.value.where == "#/properties/a~1b~0c/$ref"

    with pytest.raises(SchemaUnusable) as refused:
        SchemaDocument.of({"properties": {"a" * 5000: {"$ref": "x"}}})
    assert len(refused.value.where) < 300
