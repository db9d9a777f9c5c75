"""The model schema accepts whatever the schema accepts, and has nothing that the model's side refuses."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from app.platform.json_schema.conversion import VALUE
from app.platform.json_schema.document import DIALECTS, MAX_DEPTH, SchemaDocument, SchemaUnusable
from app.platform.json_schema.js_patterns import may_match, plain_pattern
from app.platform.json_schema.model_schema import MAX_MODEL_SCHEMA_BYTES
from tests.unit.platform.json_schema.generated import GENERATED, Generated, an_object
from tests.unit.platform.json_schema.random_schemas import random_schemas
from tests.unit.platform.json_schema.schemas import model_schema_of

_DRAFTS = (jsonschema_rs.Draft7Validator, jsonschema_rs.Draft202012Validator)
_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_BELOW = ("additionalProperties", "propertyNames", "items", "not", "if", "then", "else", "contains")
_OTHERS = {
    *("type", "title", "description", "default", "required", "uniqueItems", "format", "pattern", "$ref"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum", "const"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "anyOf", "allOf"),
}


def keywords_of(schema: Any) -> Iterator[str]:
    """All keywords, at every place of a schema."""
    if not isinstance(schema, dict):
        return
    yield from schema
    below = [schema[name] for name in _BELOW if name in schema]
    below += [each for name in _MAPS for each in schema.get(name, {}).values()]
    below += [each for name in ("anyOf", "allOf") for each in schema.get(name, ())]
    for each in below:
        yield from keywords_of(each)


def require_accepted(shown: dict[str, Any]) -> None:
    """What the CLI and the provider need of a schema."""
    assert shown["type"] == "object"
    assert not {"anyOf", "allOf", "$ref", "not", "if"} & shown.keys()
    assert set(keywords_of(shown)) <= {*_OTHERS, *_MAPS, *_BELOW}
    for draft in _DRAFTS:
        jsonschema_rs.meta.validate({"$schema": "http://json-schema.org/draft-07/schema#", **shown})
        draft(shown, validate_formats=False, offline=True)


@pytest.mark.parametrize("case", GENERATED.values(), ids=GENERATED.keys())
def test_what_generators_write_has_a_model_schema_that_accepts_its_values(case: Generated) -> None:
    before = json.dumps(case.schema)

    shown = model_schema_of(case.schema)

    require_accepted(shown.schema)
    assert (shown.is_wrapped, json.dumps(case.schema)) == (case.is_wrapped, before)
    options = jsonschema_rs.FancyRegexOptions()
    document = SchemaDocument.of(case.schema)
    original = jsonschema_rs.validator_for(
        {**json.loads(document.text), "$schema": list(DIALECTS)[document.dialect]}, pattern_options=options
    )
    for value in case.matching:
        output = {VALUE: value} if shown.is_wrapped else value
        assert original.is_valid(value)
        assert shown.answer(output) == (value, True)
        for draft in _DRAFTS:
            assert draft(shown.schema).is_valid(output), (shown.schema, output)
    assert not any(original.is_valid(value) for value in case.others)


def test_what_the_model_schema_lacks_is_explained_to_the_model() -> None:
    shown = model_schema_of(GENERATED["zod: a tuple"].schema)

    assert (
        '"prefixItems": [{"type": "string"}, {"type": "number"}]'
        in shown.schema["properties"]["a"]["description"]
    )


@pytest.mark.parametrize("output", [{}, {"other": 1}, [1], "x", None])
def test_an_output_without_the_value_is_no_answer(output: Any) -> None:
    assert model_schema_of({"type": "array"}).answer(output) == (None, False)


def test_a_schema_that_no_argument_holds_is_unusable() -> None:
    with pytest.raises(SchemaUnusable, match=str(MAX_MODEL_SCHEMA_BYTES)):
        model_schema_of(an_object({"type": "string", "description": "é" * (MAX_MODEL_SCHEMA_BYTES // 6)}))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        an_object({"$ref": "#/properties/a"}),
        an_object({}, **{"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"anyOf": [{"$ref": "#/$defs/A"}]}}}),
    ],
)
def test_a_reference_without_an_end_is_unusable(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaUnusable, match="itself"):
        model_schema_of(schema)


def test_explanations_are_left_out_where_they_would_make_it_too_large() -> None:
    tuples = {f"p{n}": {"prefixItems": [{"type": "string", "title": "x" * 700}]} for n in range(160)}

    shown = model_schema_of({"type": "object", "properties": tuples})

    assert "description" not in shown.schema["properties"]["p0"]


@pytest.mark.parametrize("keyword", ["not", "if", "prefixItems", "contains", "allOf"])
def test_deep_schemas_take_no_time(keyword: str) -> None:
    schema: Any = {"type": "object"}
    is_list = keyword in ("prefixItems", "allOf")
    for _ in range((MAX_DEPTH - 4) // (1 + is_list)):
        schema = {keyword: [schema] if is_list else schema, "then": {}}

    require_accepted(model_schema_of(an_object(schema)).schema)


def test_the_model_schemas_of_random_schemas_accept_their_values() -> None:
    found = list(random_schemas(seed=1, count=800))

    assert sum(len(each.outputs) for each in found) > 1_000
    for each in found:
        require_accepted(each.shown.schema)
        for draft in _DRAFTS:
            validator = draft(each.shown.schema, validate_formats=False, offline=True)
            assert all(map(validator.is_valid, each.outputs)), (each.schema, each.shown.schema)


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"enum": [[1], [1.0]]}, {"enum": [[1.0]]}),
        ({"enum": [2**53 + 1, 2**53]}, {"enum": [2**53]}),
        ({"enum": [0, -0.0, False]}, {"enum": [-0.0, False]}),
        ({"pattern": r"^.\.[.]$"}, {"pattern": r"^[^\n]\.[.]$"}),
        ({"patternProperties": {"^x-": {}}, "properties": {"x-a": {}}}, {"properties": {"x-a": {}}}),
        (
            {"patternProperties": {"^x-": {}}, "properties": {"b": {}}, "additionalProperties": False},
            {"patternProperties": {"^x-": {}}, "properties": {"b": {}}, "additionalProperties": False},
        ),
        (
            {"properties": {"toString": {}, "b": {}}, "required": ["b"], "additionalProperties": False},
            {"properties": {"b": {}}, "required": ["b"]},
        ),
        (
            {"anyOf": [{"type": "null"}], "oneOf": [{"const": 1}], "allOf": [{"const": 2}]},
            {"anyOf": [{"type": "null"}], "allOf": [{"const": 2}, {"anyOf": [{"const": 1}]}]},
        ),
        ({"$ref": "#/default"}, {}),
        ({"$ref": "#/properties/b/const"}, {}),
    ],
)
def test_what_is_kept_means_the_same_everywhere(schema: dict[str, Any], kept: dict[str, Any]) -> None:
    whole = an_object(schema, default={"prefixItems": []})

    shown = dict(model_schema_of(whole).schema["properties"]["a"])

    shown.pop("description", None)
    # As text: 1, 1.0 and True are not the same here.
    assert json.dumps(shown, sort_keys=True) == json.dumps(kept, sort_keys=True)


@pytest.mark.parametrize(
    "schema", [{"properties": {"toString": {"type": "string"}}}, {"const": {"valueOf": 1}}]
)
def test_what_javascript_inherits_is_described(schema: dict[str, Any]) -> None:
    shown = model_schema_of(an_object(schema)).schema["properties"]["a"]

    assert json.dumps(schema) in shown["description"]


def test_every_anchor_is_found() -> None:
    members = {f"d{number}": {"$anchor": f"a{number}", "type": "string"} for number in range(101)}
    data = {"const": {"$anchor": "a100"}}

    shown = model_schema_of(an_object({"$ref": "#a100"}, **{"$defs": {**members, "data": data}})).schema

    assert shown["properties"]["a"] == {"$ref": "#/$defs/d100"}


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("^x-", "x-a", True),
        ("^x-", "a", False),
        ("^xy*", "xa", True),
        ("^xy{2}", "a", False),
        ("^a|b", "b", True),
        ("b$", "a", True),
        ("^[a-z]", "1", True),
    ],
)
def test_a_pattern_matches_unless_its_beginning_differs(pattern: str, name: str, *, expected: bool) -> None:
    assert may_match(pattern, name) is expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^a+$", True),
        (r"^[A-Za-z0-9_'+\-]+@(?:[a-z]+\.){1,3}x??|y$", True),
        *(
            (pattern, False)
            for pattern in ("(?=a)", "(?i)a", r"[\w-.]", "{", "]", "a**", "^*", r"\p{L}", r"\-")
        ),
        *((pattern, False) for pattern in ("[]", "(", r"(a)\1", "a{2,1}", "[z-a]", "(*)", "(?<n>a)", "\\")),
        *((pattern, False) for pattern in (r"a\b", r"\Ba")),
        ("a" * 1_001, False),
    ],
)
def test_a_pattern_is_plain_only_without_doubt(pattern: str, *, expected: bool) -> None:
    assert (plain_pattern(pattern) is not None) is expected
