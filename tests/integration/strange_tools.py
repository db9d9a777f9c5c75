"""Tools as a server of other people may list them, and what becomes of each."""

from typing import Any

OBJECT = {"type": "object"}
TEXT = {"type": "string"}
A = {"a": TEXT}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}
_FLAGS = {"a": True, "b": False}


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {**TEXT}
    for _ in range(levels // 2):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


USABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    # The schema as it is listed, and as the model gets it.
    "no_type": ({"properties": A}, {**OBJECT, "properties": A}),
    "empty": ({}, OBJECT),
    "anything": (True, OBJECT),
    "none": (None, OBJECT),
    "types": ({"type": ["object", "null"], "properties": A}, {**OBJECT, "properties": A}),
    "any_of": ({"anyOf": [OBJECT, {**OBJECT, "properties": A}]}, {**OBJECT, "properties": A}),
    "one_of": ({**OBJECT, "oneOf": [{"required": ["a"]}]}, OBJECT),
    "all_of": ({**OBJECT, "allOf": [{"properties": A}]}, {**OBJECT, "properties": A}),
    "reference": (
        {"$ref": "#/$defs/A", "$defs": {"A": {**OBJECT, "properties": A}}},
        {**OBJECT, "properties": A, "$defs": {"A": {**OBJECT, "properties": A}}},
    ),
    "recursive": ({**NODE, "$defs": {"N": NODE}}, {**NODE, "$defs": {"N": NODE}}),
    "flags": ({**OBJECT, "properties": _FLAGS}, {**OBJECT, "properties": _FLAGS}),
    "half_a_character": (
        {**OBJECT, "properties": {"a": {**TEXT, "description": "\ud83d"}}},
        {**OBJECT, "properties": {"a": {**TEXT, "description": "\ufffd"}}},
    ),
    "pair_of_2019": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            **OBJECT,
            "properties": {"a": {"items": [TEXT]}, "b": {"$recursiveRef": "#"}},
        },
        {**OBJECT, "properties": {"a": {"prefixItems": [TEXT]}, "b": {"$ref": "#"}}},
    ),
    "extensions": (
        {**OBJECT, "x-order": 1, "discriminator": {}},
        {**OBJECT, "x-order": 1, "discriminator": {}},
    ),
}

UNUSABLE: dict[str, tuple[Any, str]] = {
    # The schema as it is listed, and a part of the reason.
    "array": ({"type": "array"}, "must be object"),
    "number": ({"type": 5}, "#/type"),
    "text": ("object", "must be an object"),
    "list": ([], "must be an object"),
    "itself": ({"$ref": "#"}, "refers to itself"),
    "nothing": ({**OBJECT, "properties": {"a": {"$ref": "#/$defs/none"}}}, "refers to nothing"),
    "elsewhere": ({**OBJECT, "properties": {"a": {"$ref": "https://example.org/a"}}}, "same schema"),
    "properties_list": ({**OBJECT, "properties": ["a"]}, "#/properties"),
    "properties_null": ({**OBJECT, "properties": None}, "#/properties"),
    "required_text": ({**OBJECT, "required": "a"}, "#/required"),
    "large": ({**OBJECT, "properties": {f"p{n}": {"description": "x" * 300} for n in range(999)}}, "larger"),
    "deep": (_nested(400), "deeper than 64"),
    "space": ({**OBJECT, "properties": {"a b": TEXT}}, "no model takes"),
    "long": ({**OBJECT, "properties": {"a" * 65: TEXT}}, "no model takes"),
    "pattern": ({**OBJECT, "properties": {"a": {"pattern": "("}}}, "regular expression"),
    "infinite": ({**OBJECT, "properties": {"a": {"minimum": float("inf")}}}, "#"),
    "not_a_number": ({**OBJECT, "properties": {"a": {"minimum": float("nan")}}}, "#"),
    "dialect": ({"$schema": "https://example.org/mine", **OBJECT}, "#/$schema"),
}

_FIELDS: dict[str, dict[str, Any]] = {
    "description_null": {"description": None},
    "description_number": {"description": 5},
    "annotations": {"annotations": "harmless", "icons": 1, "_meta": [], "title": {}},
    "described_by_half": {"description": "\udc00"},
    "missing": {"inputSchema": ...},
}
"""Tools whose other fields are not valid; they can be used."""

MANY = [
    *({"name": name, "inputSchema": schema} for name, (schema, _) in (USABLE | UNUSABLE).items()),
    *({"name": name, "inputSchema": OBJECT, **fields} for name, fields in _FIELDS.items()),
    {"name": "empty", "inputSchema": {"type": "array"}},
    {"name": "too_long", "description": "x" * 100_000, "inputSchema": OBJECT},
]
TOOLS = [{key: value for key, value in each.items() if value is not ...} for each in MANY]
NAMES = list(dict.fromkeys(tool["name"] for tool in TOOLS))
USABLE_NAMES = {*USABLE, *_FIELDS}
