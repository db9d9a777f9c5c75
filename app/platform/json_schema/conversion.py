"""Conversion: rewrites a schema into keywords that all validators of the model's side read alike; pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.platform.json_schema.document import DRAFT_7
from app.platform.json_schema.js_patterns import may_match, plain_pattern
from app.platform.json_schema.pointers import is_pointer, names_of, reference_to
from app.platform.json_schema.subschemas import schemas_in

VALUE: Final = "value"
"""The property that has the answer, where the schema describes something else than an object."""

_KEPT = frozenset(
    {
        *("type", "title", "description", "default", "uniqueItems", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    }
)
_DEFINITIONS = ("$defs", "definitions")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NEW_IN_2019 = {
    *("dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
    *("minContains", "maxContains", "$recursiveRef"),
}
_NEW_IN_2020 = {"prefixItems", "$dynamicRef"}
_UNKNOWN = (
    {"$recursiveRef", "additionalItems"},
    _NEW_IN_2020,
    _NEW_IN_2020 | _NEW_IN_2019,
    _NEW_IN_2020 | _NEW_IN_2019 | {"if", "then", "else"},
)
"""Keywords that mean nothing in each dialect."""

_BESIDE_REFERENCE = {"$ref", "$defs", "definitions", "title", "description", "default"}
_EXPLAINED = frozenset(
    {
        *("prefixItems", "additionalItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
        *("unevaluatedProperties", "patternProperties", "dependentRequired", "dependentSchemas"),
        *("dependencies", "not", "if", "then", "else", "pattern", "items", "additionalProperties"),
    }
)
"""Keywords that the model reads about where the model schema lacks them."""

_INHERITED = frozenset(
    {
        *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString"),
        *("toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__"),
        *("__lookupGetter__", "__lookupSetter__"),
    }
)
"""Properties that every object of JavaScript has: a validator there takes them for present."""

_MOST_EXPLAINED_CHARS = 2_000
_WRITTEN_CHARS = 1_000_000
"""How much is written as JSON for explanations, most of which may turn out to be too long."""

_MOST_COMPARED = 50


def effective(schema: Mapping[str, Any], dialect: int) -> dict[str, Any]:
    """The keywords of one schema that mean something in its dialect."""
    if dialect >= DRAFT_7 and isinstance(schema.get("$ref"), str):
        return {name: value for name, value in schema.items() if name in _BESIDE_REFERENCE}
    return {name: value for name, value in schema.items() if name not in _UNKNOWN[dialect]}


class Conversion:
    """Rewrites one schema of a dialect."""

    def __init__(
        self, schema: Mapping[str, Any], dialect: int, *, is_wrapped: bool, explains: bool = True
    ) -> None:
        self._schema = schema
        self._dialect = dialect
        self._is_wrapped = is_wrapped
        self._anchors = dict(_anchors(schema)) if dialect < DRAFT_7 else {}
        self._chars_left = _WRITTEN_CHARS if explains else 0
        self._must_be_exact = False

    def root(self) -> dict[str, Any]:
        converted = self._convert(self._schema, is_root=True)
        if not self._is_wrapped:
            result = {"type": "object", **converted}
        else:
            hoisted = {name: converted.pop(name) for name in _DEFINITIONS if name in converted}
            properties = {VALUE: converted}
            result = {"type": "object", "properties": properties, "required": [VALUE], **hoisted}
            result["additionalProperties"] = False
        _drop_dangling(result)
        return result

    def _convert(self, schema: Any, *, is_root: bool = False) -> Any:
        if not isinstance(schema, dict):
            return schema
        schema = effective(schema, self._dialect)
        result: dict[str, Any] = {name: value for name, value in schema.items() if name in _KEPT}
        # Where `$defs` is no keyword, only the root's has been checked to have schemas.
        for name in _DEFINITIONS if is_root or self._dialect < DRAFT_7 else ("definitions",):
            if isinstance(members := schema.get(name), dict):
                result[name] = self._convert_all(members)
        self._add_properties(schema, result)
        self._add_alternatives(schema, result)
        self._add_values(schema, result)
        self._add_reference(schema, result)
        self._add_items(schema, result)
        self._add_exact(schema, result)
        self._explain(schema, result)
        return result

    def _convert_all(self, members: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._convert(value) for name, value in members.items()}

    def _add_properties(self, schema: Mapping[str, Any], result: dict[str, Any]) -> None:
        result |= {
            name: self._convert(schema[name])
            for name in ("additionalProperties", "propertyNames")
            if name in schema
        }
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        if isinstance(required := schema.get("required"), list):
            result["required"] = [name for name in required if name not in _INHERITED]
        if "properties" in schema:
            listed = {name: value for name, value in properties.items() if name not in _INHERITED}
            result["properties"] = self._convert_all(listed)
        if patterns and _is_common(patterns, properties):
            result["patternProperties"] = {
                plain_pattern(name): self._convert(value) for name, value in patterns.items()
            }
        if len(result.get("properties", {})) < len(properties) or (
            patterns and "patternProperties" not in result
        ):
            # What is not listed would count as additional.
            result.pop("additionalProperties", None)

    def _add_alternatives(self, schema: Mapping[str, Any], result: dict[str, Any]) -> None:
        # The places of those that keep their keyword stay as they are: references mean them.
        for name in ("anyOf", "allOf"):
            if isinstance(branches := schema.get(name), list):
                result[name] = [self._convert(each) for each in branches]
        if isinstance(branches := schema.get("oneOf"), list):
            converted = [self._convert(each) for each in branches]
            if "anyOf" in result:
                result["allOf"] = [*result.get("allOf", ()), {"anyOf": converted}]
            else:
                result["anyOf"] = converted

    @staticmethod
    def _add_values(schema: Mapping[str, Any], result: dict[str, Any]) -> None:
        if "const" in schema and not _has_inherited(schema["const"]):
            result["const"] = schema["const"]
        if isinstance(values := schema.get("enum"), list) and not _has_inherited(values):
            distinct = list({_key(value): value for value in values}.values())
            name, value = ("enum", distinct) if distinct else ("not", {})
            result[name] = value
        if isinstance(pattern := schema.get("pattern"), str) and (common := plain_pattern(pattern)):
            result["pattern"] = common

    def _add_reference(self, schema: Mapping[str, Any], result: dict[str, Any]) -> None:
        found = next((schema[name] for name in _REFERENCES if isinstance(schema.get(name), str)), None)
        # Validators take each `$recursiveRef` for one to the root.
        if found is None or ("$ref" not in schema and schema.get("$recursiveRef", "#") != "#"):
            return
        names = names_of(found) if is_pointer(found) else self._anchors.get(found.removeprefix("#"))
        if names is None:
            return
        moves = self._is_wrapped and names[:1] not in {(name,) for name in _DEFINITIONS}
        result["$ref"] = reference_to(("properties", VALUE, *names) if moves else names)

    def _add_items(self, schema: Mapping[str, Any], result: dict[str, Any]) -> None:
        items, tuples = schema.get("items"), schema.get("prefixItems")
        rest: Any = items
        if isinstance(items, list):
            # The drafts before 2020-12.
            tuples, rest = items, schema.get("additionalItems")
        if not isinstance(tuples, list):
            if rest is not None:
                result["items"] = self._convert(rest)
            return
        if (most := result.get("maxItems")) is not None and most <= len(tuples):
            rest = False
        positions = [*tuples, *([] if rest is False else [rest if isinstance(rest, dict) else True])]
        if True not in positions:
            distinct = _distinct([self._convert(each) for each in positions])
            result["items"] = {"anyOf": distinct} if distinct else {}
        if rest is False:
            result["maxItems"] = min(result.get("maxItems", len(tuples)), len(tuples))

    def _add_exact(self, schema: Mapping[str, Any], result: dict[str, Any]) -> None:
        """What would be stricter if anything in it were left out."""
        if "not" in schema and "not" not in result and (exact := self._exact(schema["not"])) is not None:
            result["not"] = exact
        branches = {name: schema[name] for name in ("then", "else") if name in schema}
        if "if" in schema and branches and (exact := self._exact(schema["if"])) is not None:
            result["if"] = exact
            result |= self._convert_all(branches)
        if "contains" in schema and schema.get("minContains", 1) != 0:
            result["contains"] = self._convert(schema["contains"])

    def _exact(self, schema: Any) -> Any:
        """The same schema, if all of it can be kept; None otherwise, and within another such schema."""
        if self._must_be_exact:
            return None
        self._must_be_exact = True
        try:
            converted = self._convert(schema)
        finally:
            self._must_be_exact = False
        # What a reference refers to may be less than it was.
        return converted if converted == schema and '"$ref"' not in json.dumps(converted) else None

    def _explain(self, schema: Mapping[str, Any], result: dict[str, Any]) -> None:
        """Describe the constraints that are left out."""
        if self._chars_left <= 0 or self._must_be_exact:
            return
        lacking = {name: schema[name] for name in schema if name in _EXPLAINED and name not in result}
        if isinstance(schema.get("items"), list) or "prefixItems" in lacking:
            lacking |= {"items": schema["items"]} if "items" in schema else {}
        if unlisted := _INHERITED & schema.get("properties", {}).keys():
            lacking["properties"] = {name: schema["properties"][name] for name in sorted(unlisted)}
        if unlisted := _INHERITED.intersection(schema.get("required", ())):
            lacking["required"] = sorted(unlisted)
        lacking |= {name: schema[name] for name in ("const", "enum") if _has_inherited(schema.get(name))}
        if not lacking:
            return
        text = json.dumps(lacking, ensure_ascii=False)
        self._chars_left -= len(text)
        if len(text) <= _MOST_EXPLAINED_CHARS:
            note = f"Must also match this JSON Schema: {text}"
            result["description"] = "\n".join(filter(None, [result.get("description"), note]))


def _is_common(patterns: Mapping[str, Any], properties: Mapping[str, Any]) -> bool:
    """Whether all patterns can be kept: the CLI takes none that matches a name in `properties`."""
    return all(
        plain_pattern(pattern) is not None
        and pattern not in _INHERITED
        and not any(may_match(pattern, name) for name in properties)
        for pattern in patterns
    )


def _distinct(schemas: list[Any]) -> list[Any]:
    if len(schemas) > _MOST_COMPARED:
        return schemas
    found: list[Any] = []
    for each in schemas:
        if each not in found:
            found.append(each)
    return found


def _has_inherited(value: Any) -> bool:
    """Whether JavaScript cannot compare it: an object in it has such a property."""
    if isinstance(value, dict):
        return not _INHERITED.isdisjoint(value) or any(map(_has_inherited, value.values()))
    return isinstance(value, list) and any(map(_has_inherited, value))


def _key(value: Any) -> str:
    """Equal for what validators take for the same value."""
    return json.dumps(_with_doubles(value), sort_keys=True)


def _with_doubles(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int() | float():
            # Without the sign of zero.
            return float(value) + 0.0
        case list():
            return [_with_doubles(each) for each in value]
        case dict():
            return {name: _with_doubles(each) for name, each in value.items()}
        case _:
            return value


def _anchors(schema: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The places that have a name."""
    for path, each in schemas_in(schema):
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(each, dict) and isinstance(anchor := each.get(name), str):
                yield anchor, path


def _drop_dangling(result: dict[str, Any]) -> None:
    """Remove references to what is no schema in the result."""
    places = dict(schemas_in(result))
    for each in places.values():
        if isinstance(each, dict) and "$ref" in each and names_of(each["$ref"]) not in places:
            del each["$ref"]
