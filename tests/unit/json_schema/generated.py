"""Schemas as generators write them, each with values that match it and values that do not."""

from typing import Any, NamedTuple

D2020 = "https://json-schema.org/draft/2020-12/schema"
CAT = {"type": "object", "properties": {"kind": {"const": "cat", "type": "string"}}, "required": ["kind"]}
DOG = {"type": "object", "properties": {"kind": {"const": "dog", "type": "string"}}, "required": ["kind"]}
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


class Generated(NamedTuple):
    """A schema, and values for it."""

    schema: dict[str, Any]
    matching: list[Any]
    others: list[Any]
    is_wrapped: bool = False


def an_object(member: Any, **fields: Any) -> dict[str, Any]:
    """A schema of an object with one member `a`."""
    return {"type": "object", "properties": {"a": member}, "required": ["a"], **fields}


GENERATED: dict[str, Generated] = {
    "zod: an object with a format": Generated(
        an_object({"type": "string", "format": "email", "pattern": EMAIL}, **{"$schema": D2020}),
        [{"a": "ada@example.org"}],
        [{"a": "a..b@example.org"}, {}],
    ),
    "zod: a tuple": Generated(
        an_object(
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
            **{"$schema": D2020},
        ),
        [{"a": ["x", 1]}],
        [{"a": [1, "x"]}, {"a": ["x", 1, 2]}],
    ),
    "zod: a record of an enum": Generated(
        an_object({"type": "object", "propertyNames": {"enum": ["x"]}, "additionalProperties": {}}),
        [{"a": {"x": 1}}],
        [{"a": {"y": 1}}],
    ),
    "zod: an object in itself": Generated(
        {
            "$schema": D2020,
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
            "required": ["children"],
            "additionalProperties": False,
        },
        [{"children": [{"children": []}]}],
        [{"children": [{}]}],
    ),
    "zod: alternatives": Generated(
        {"$schema": D2020, "oneOf": [CAT, DOG]},
        [{"kind": "cat"}],
        [{"kind": "cow"}, "cat"],
        is_wrapped=True,
    ),
    "zod: a list": Generated(
        {"$schema": D2020, "type": "array", "items": CAT}, [[], [{"kind": "cat"}]], [{}], True
    ),
    "zod: a list in itself": Generated(
        {"$schema": D2020, "type": "array", "items": {"$ref": "#"}}, [[[], [[]]]], [[1]], is_wrapped=True
    ),
    "zod: a text": Generated({"$schema": D2020, "type": "string"}, ["x"], [1], is_wrapped=True),
    "zod: null": Generated({"$schema": D2020, "type": "null"}, [None], [1], is_wrapped=True),
    "zod: a named object": Generated(
        {"$schema": D2020, "$ref": "#/$defs/Cat", "$defs": {"Cat": {**CAT, "x-order": 1}}},
        [{"kind": "cat"}],
        [{"kind": "dog"}],
    ),
    "Pydantic: a discriminated union": Generated(
        an_object(
            {
                "discriminator": {"mapping": {"cat": "#/$defs/Cat"}, "propertyName": "kind"},
                "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
                "title": "Pet",
            },
            **{"$defs": {"Cat": CAT, "Dog": DOG}, "example": 1, "examples": [{}], "x-thing": {"y": 1}},
        ),
        [{"a": {"kind": "dog"}}],
        [{"a": {"kind": "cow"}}],
    ),
    "Pydantic: a tuple, and a default": Generated(
        an_object(
            {"maxItems": 1, "minItems": 1, "prefixItems": [{"type": "integer"}], "type": "array"},
            unevaluatedProperties=False,
        ),
        [{"a": [1]}],
        [{"a": ["1"]}, {"a": [1], "b": 1}],
    ),
    "Pydantic: a model in itself": Generated(
        {
            "$ref": "#/$defs/N",
            "$defs": {"N": an_object({"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]})},
        },
        [{"a": {"a": None}}],
        [{"a": {}}],
    ),
    "Pydantic: a root model": Generated(
        {"items": {"$ref": "#/$defs/Cat"}, "type": "array", "$defs": {"Cat": CAT}},
        [[{"kind": "cat"}]],
        [[{}]],
        is_wrapped=True,
    ),
    "draft 7: a tuple, definitions and dependencies": Generated(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **an_object(
                {"items": [{"$ref": "#/definitions/s"}], "additionalItems": False},
                definitions={"s": {"type": "string"}},
                dependencies={"a": ["b"]},
            ),
        },
        [{"a": ["x"], "b": 1}],
        [{"a": ["x"]}, {"a": [1], "b": 1}],
    ),
    "draft 2019: a reference to the root": Generated(
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "type": "object",
            "$recursiveAnchor": True,
            "properties": {"a": {"$recursiveRef": "#"}},
        },
        [{"a": {"a": {}}}],
        [{"a": {"a": 1}}],
    ),
    "anchors": Generated(
        an_object({"$ref": "#s"}, **{"$defs": {"S": {"$anchor": "s", "type": "string"}}}),
        [{"a": "x"}],
        [{"a": 1}],
    ),
    "patterns that engines read differently": Generated(
        an_object(
            {"type": "string", "pattern": "(?i)^x$"},
            patternProperties={"(?i)^b": {"type": "integer"}},
            additionalProperties=False,
        ),
        [{"a": "X", "B": 1}],
        [{"a": "y"}, {"a": "x", "c": 1}],
    ),
    "names that no model takes": Generated(
        {"type": "object", "properties": {"a b": {"type": "string"}}},
        [{"a b": "x"}],
        [{"a b": 1}],
        is_wrapped=True,
    ),
    "what would be stricter without a part of it": Generated(
        an_object(
            {
                "not": {"type": "array", "prefixItems": [{"type": "string"}]},
                "if": {"type": "object", "unevaluatedProperties": False},
                "then": {"type": "integer"},
                "contains": {"type": "string"},
                "minContains": 0,
            }
        ),
        [{"a": [1]}, {"a": {"b": 1}}],
        [{"a": ["x"]}],
    ),
    "kept conditions": Generated(
        an_object({"not": {"type": "string"}, "if": {"type": "integer"}, "then": {"minimum": 3}, "else": {}}),
        [{"a": 3}, {"a": None}],
        [{"a": "x"}, {"a": 2}],
    ),
    "equal and impossible values": Generated(
        an_object({"enum": [1, 1.0, "x"]}, properties={"a": {"enum": [1, 1.0, "x"]}, "b": {"enum": []}}),
        [{"a": 1}],
        [{"a": 2}, {"a": 1, "b": 1}],
    ),
    "draft 7: keywords beside a reference": Generated(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **an_object({"$ref": "#/$defs/S", "type": "integer"}, definitions={}),
            "$defs": {"S": {"type": "string"}},
        },
        [{"a": "x"}],
        [{"a": 1}],
    ),
    "TypeBox: a tuple": Generated(
        an_object({"type": "array", "items": [{"type": "string"}], "additionalItems": False, "minItems": 1}),
        [{"a": ["x"]}],
        [{"a": [1]}, {"a": ["x", "x"]}],
    ),
    "zod, OpenAPI 3.0: null": Generated(
        an_object(
            {"type": "string", "nullable": True, "enum": [None]},
            properties={
                "a": {"type": "string", "nullable": True, "enum": [None]},
                "b": {"type": "string", "nullable": True},
                "c": {"nullable": True, "allOf": [{"$ref": "#"}]},
                "d": {"nullable": True, "type": "string", "enum": ["x"]},
                "nullable": {"type": "boolean"},
            },
        ),
        [
            {"a": None},
            {"a": None, "b": None, "c": None, "d": None, "nullable": True},
            {"a": None, "b": "x", "c": {"a": None}, "d": "x"},
        ],
        [{"a": "x"}, {"a": None, "b": 1}, {"a": None, "c": {}}, {"a": None, "d": "y"}],
    ),
    "names that JavaScript inherits": Generated(
        an_object({}, properties={"constructor": {"type": "string"}, "a": {}}, additionalProperties=False),
        [{"a": 1}, {"a": 1, "constructor": "Ferrari"}],
        [{"a": 1, "constructor": 1}, {"a": 1, "b": 1}],
    ),
    "data that looks like a schema": Generated(
        an_object({"const": {"$schema": "x", "$id": "y", "$ref": "z"}}, default={"pattern": "x" * 2_000}),
        [{"a": {"$schema": "x", "$id": "y", "$ref": "z"}}],
        [{"a": {}}],
    ),
    "a line separator": Generated(
        an_object({"type": "string", "pattern": "^.$"}), [{"a": "\u2028"}, {"a": "\r"}], [{"a": "\n"}]
    ),
}
