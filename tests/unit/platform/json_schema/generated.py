"""Schemas as generators write them, each with values that match it and values that do not."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, RootModel

_ZOD = json.loads(Path(__file__).with_name("zod.json").read_text("utf-8"))
"""What zod makes of the types in `tests/clients/zod_schemas.mjs`, whose test fails once this is outdated."""
_WRAPPED_ZOD = {"zod: alternatives", "zod: a list", "zod: a list in itself", "zod: a text", "zod: null"}


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Home(BaseModel):
    model_config = ConfigDict(json_schema_extra={"example": 1, "x-thing": {"y": 1}})
    a: Annotated[Cat | Dog, Field(discriminator="kind", title="Pet", examples=[{}])]


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: tuple[int]
    b: str = "x"


class Node(BaseModel):
    a: "Node | None"


class Cats(RootModel[list[Cat]]):
    pass


class Generated(NamedTuple):
    """A schema, and values for it."""

    schema: dict[str, Any]
    matching: list[Any]
    others: list[Any]
    is_wrapped: bool = False


def an_object(member: Any, **fields: Any) -> dict[str, Any]:
    """A schema of an object with one member `a`."""
    return {"type": "object", "properties": {"a": member}, "required": ["a"], **fields}


_ZOD_VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "zod: an object with a format": ([{"a": "ada@example.org"}], [{"a": "a..b@example.org"}, {}]),
    "zod: a tuple": ([{"a": ["x", 1]}], [{"a": [1, "x"]}, {"a": ["x", 1, 2]}]),
    "zod: a record of an enum": ([{"a": {"x": 1}}], [{"a": {"y": 1}}]),
    "zod: an object in itself": ([{"children": [{"children": []}]}], [{"children": [{}]}]),
    "zod: a named object": ([{"a": {"kind": "cat"}}], [{"a": {"kind": "dog"}}]),
    "zod: alternatives": ([{"kind": "cat"}], [{"kind": "cow"}, "cat"]),
    "zod: a list": ([[], [{"kind": "cat"}]], [{}]),
    "zod: a list in itself": ([[[], [[]]]], [[1]]),
    "zod: a text": (["x"], [1]),
    "zod: null": ([None], [1]),
}

GENERATED: dict[str, Generated] = {
    **{
        name: Generated(_ZOD[name], matching, others, is_wrapped=name in _WRAPPED_ZOD)
        for name, (matching, others) in _ZOD_VALUES.items()
    },
    "Pydantic: a discriminated union": Generated(
        Home.model_json_schema(), [{"a": {"kind": "dog"}}], [{"a": {"kind": "cow"}}]
    ),
    "Pydantic: a tuple, and a default": Generated(
        Row.model_json_schema(), [{"a": [1]}], [{"a": ["1"]}, {"a": [1], "c": 1}]
    ),
    "Pydantic: a model in itself": Generated(Node.model_json_schema(), [{"a": {"a": None}}], [{"a": {}}]),
    "Pydantic: a root model": Generated(
        Cats.model_json_schema(), [[{"kind": "cat"}]], [[{}]], is_wrapped=True
    ),
    "no unevaluated properties": Generated(
        an_object({"type": "integer"}, unevaluatedProperties=False), [{"a": 1}], [{"a": 1, "b": 1}]
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
