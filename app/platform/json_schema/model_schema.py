"""The schema of an answer as the model's side takes it: the CLI's validator, and the provider; pure.

The CLI checks with a strict validator of draft 7, which ends on each keyword that it does not know; the
provider reads draft 2020-12, and takes only objects without alternatives as the arguments of a tool. A model
schema has what means the same to both. It accepts whatever the schema accepts: answers are checked against
the schema itself.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.platform.json_schema.conversion import VALUE, Conversion, effective
from app.platform.json_schema.document import SchemaDocument, SchemaUnusable
from app.platform.json_schema.pointers import is_pointer, names_of, resolved
from app.platform.json_schema.subschemas import schemas_in

MAX_MODEL_SCHEMA_BYTES = 98_304
"""The CLI gets the schema as an argument, which may have 128 KiB."""

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The names of properties that the provider takes at the root."""

_ALTERNATIVES = ("anyOf", "oneOf", "allOf", "not", "if", "enum")
"""What the provider does not take at the root."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_MOST_HOPS = 64


@dataclass(frozen=True, slots=True)
class ModelSchema:
    """A schema for the model's side, and what its answers mean."""

    document: SchemaDocument
    """What the answers are checked against."""
    schema: dict[str, Any]
    is_wrapped: bool
    """Whether the answer is in the property `value`."""

    def answer(self, output: Any) -> tuple[Any, bool]:
        if not self.is_wrapped:
            return output, output is not None
        if not isinstance(output, dict) or VALUE not in output:
            return None, False
        return output[VALUE], True


def model_schema(document: SchemaDocument) -> ModelSchema:
    """The model schema of a usable schema; raises `SchemaUnusable` if it has none."""
    dialect = document.dialect
    root = _without_root_reference(document.plain, dialect)
    is_wrapped = not _is_plain_object(root)
    converted = Conversion(root, dialect, is_wrapped=is_wrapped).root()
    if len(json.dumps(converted)) > MAX_MODEL_SCHEMA_BYTES:
        converted = Conversion(root, dialect, is_wrapped=is_wrapped, explains=False).root()
    if _has_endless_reference(converted):
        raise SchemaUnusable("#", "refers to itself without end")
    if len(json.dumps(converted)) > MAX_MODEL_SCHEMA_BYTES:
        reason = f"is too large after conversion for the model: at most {MAX_MODEL_SCHEMA_BYTES} bytes"
        raise SchemaUnusable("#", reason)
    return ModelSchema(document, converted, is_wrapped)


def _without_root_reference(schema: Mapping[str, Any], dialect: int) -> Mapping[str, Any]:
    """The schema with what its root refers to in the reference's place, if that is all the root has."""
    places = dict(schemas_in(schema))
    root = effective(schema, dialect)
    for _ in range(_MOST_HOPS):
        target = root.get("$ref")
        others = root.keys() - {"$ref", "$defs", "definitions", "$schema", "$id", "title", "description"}
        found = None
        if isinstance(target, str) and is_pointer(target) and not others:
            found = places.get(names_of(target))
        if not isinstance(found, dict):
            return root
        kept = ("$defs", "definitions", "title", "description")
        root = {**effective(found, dialect), **{name: schema[name] for name in kept if name in schema}}
    return effective(schema, dialect)


def _is_plain_object(root: Mapping[str, Any]) -> bool:
    """Whether the provider takes it as the arguments of a tool."""
    properties = root.get("properties", {})
    return (
        (root.get("type") == "object" or ("type" not in root and bool(properties) and not _is_named(root)))
        and not any(name in root for name in (*_ALTERNATIVES, *_REFERENCES))
        and all(_PROPERTY.fullmatch(name) for name in properties)
    )


def _is_named(root: Mapping[str, Any]) -> bool:
    """Whether there may be references to the whole, which need not mean an object."""
    return bool({"$anchor", "$dynamicAnchor"} & root.keys()) or '"#"' in json.dumps(root)


def _has_endless_reference(converted: dict[str, Any]) -> bool:
    """Whether to check a value with some part of it means to check the same value with that part."""
    done, path = set[int](), set[int]()
    for _, start in schemas_in(converted):
        if not isinstance(start, dict):
            continue
        stack = [(start, iter(_on_the_same_value(start, converted)))]
        path.add(id(start))
        while stack:
            schema, following = stack[-1]
            below = next((each for each in following if id(each) not in done), None)
            if below is None:
                stack.pop()
                path.discard(id(schema))
                done.add(id(schema))
            elif id(below) in path:
                return True
            else:
                path.add(id(below))
                stack.append((below, iter(_on_the_same_value(below, converted))))
    return False


def _on_the_same_value(schema: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a value of this one is checked with as well."""
    found = [schema.get(name) for name in ("not", "if", "then", "else")]
    found += [each for name in ("anyOf", "allOf") for each in schema.get(name, ())]
    if "$ref" in schema:
        found.append(resolved(root, schema["$ref"]))
    return [each for each in found if isinstance(each, dict)]
