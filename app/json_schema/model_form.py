"""The form of a response schema that the model's side takes: the CLI's validator, and the provider; pure.

The CLI checks with a strict validator of draft 7, which ends on each keyword that it does not know; the
provider reads draft 2020-12, and takes only objects without alternatives as the arguments of a tool. The form
has what means the same to both. It accepts whatever the schema accepts: answers are checked against the
schema itself.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from app.json_schema.document import SchemaUnusable
from app.json_schema.js_patterns import is_plain
from app.json_schema.pointers import resolved

VALUE: Final = "value"
"""The property that has the answer, where the schema describes something else than an object."""

MAX_FORM_BYTES = 98_304
"""The CLI gets the schema as an argument, which may have 128 KiB."""

_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The names of properties that the provider takes at the root."""

_KEPT = frozenset(
    {
        *("type", "title", "description", "default", "required", "uniqueItems", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    }
)
_SCHEMA_MAPS = ("properties", "$defs", "definitions")
_SCHEMAS = ("additionalProperties", "propertyNames")
_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_ALTERNATIVES = ("anyOf", "oneOf", "allOf", "not", "if", "enum")
"""What the provider does not take at the root."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_EXPLAINED = frozenset(
    {
        *("prefixItems", "additionalItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
        *("unevaluatedProperties", "patternProperties", "dependentRequired", "dependentSchemas"),
        *("dependencies", "not", "if", "then", "else", "pattern", "items"),
    }
)
"""Keywords that the model reads about where the form lacks them."""

_MOST_EXPLAINED_CHARS = 2_000
_WRITTEN_CHARS = 1_000_000
"""How much is written as JSON for explanations, most of which may turn out to be too long."""

_MOST_COMPARED = 50
_MOST_ANCHORS = 100
_MOST_HOPS = 64
_SUBSCHEMAS = ("additionalProperties", "propertyNames", "items", "contains", "then", "else", "not", "if")


@dataclass(frozen=True, slots=True)
class ModelForm:
    """A schema for the model's side, and what its answers mean."""

    schema: dict[str, Any]
    is_wrapped: bool
    """Whether the answer is in the property `value`."""

    def answer(self, output: Any) -> tuple[Any, bool]:
        """The answer in an output, and whether there is one."""
        if not self.is_wrapped:
            return output, output is not None
        if not isinstance(output, dict) or VALUE not in output:
            return None, False
        return output[VALUE], True


def model_form(schema: Mapping[str, Any]) -> ModelForm:
    """The form of a usable schema; raises `SchemaUnusable` if it has none."""
    root = _without_root_reference(schema)
    is_wrapped = not _is_plain_object(root)
    form = _Conversion(root, is_wrapped=is_wrapped).root()
    if len(json.dumps(form)) > MAX_FORM_BYTES:
        form = _Conversion(root, is_wrapped=is_wrapped, explains=False).root()
    if _has_endless_reference(form):
        raise SchemaUnusable("#", "refers to itself without end")
    if len(json.dumps(form)) > MAX_FORM_BYTES:
        reason = f"is too large for a model: it may have {MAX_FORM_BYTES} bytes as ASCII JSON"
        raise SchemaUnusable("#", reason)
    return ModelForm(form, is_wrapped)


def _without_root_reference(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with what its root refers to in the reference's place, if that is all the root has."""
    root = schema
    for _ in range(_MOST_HOPS):
        target = root.get("$ref")
        others = root.keys() - {"$ref", "$defs", "definitions", "$schema", "$id", "title", "description"}
        found = resolved(schema, target) if isinstance(target, str) and not others else None
        if not isinstance(found, dict):
            return root
        kept = ("$defs", "definitions", "title", "description")
        root = {**found, **{name: schema[name] for name in kept if name in schema}}
    return schema


def _is_plain_object(root: Mapping[str, Any]) -> bool:
    """Whether the provider takes it as the arguments of a tool."""
    properties = root.get("properties", {})
    return (
        (root.get("type") == "object" or ("type" not in root and bool(properties)))
        and not any(name in root for name in (*_ALTERNATIVES, *_REFERENCES))
        and all(_PROPERTY.fullmatch(name) for name in properties)
    )


class _Conversion:
    """Rewrites one schema."""

    def __init__(self, schema: Mapping[str, Any], *, is_wrapped: bool, explains: bool = True) -> None:
        self._schema = schema
        self._is_wrapped = is_wrapped
        self._anchors = dict(islice(_anchors(schema, ()), _MOST_ANCHORS))
        self._chars_left = _WRITTEN_CHARS if explains else 0
        self._must_be_exact = False

    def root(self) -> dict[str, Any]:
        converted = self._convert(self._schema)
        if not self._is_wrapped:
            form = {"type": "object", **converted}
        else:
            hoisted = {name: converted.pop(name) for name in ("$defs", "definitions") if name in converted}
            properties = {VALUE: converted}
            form = {"type": "object", "properties": properties, "required": [VALUE], **hoisted}
            form["additionalProperties"] = False
        _drop_dangling(form, form)
        return form

    def _convert(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        form: dict[str, Any] = {name: value for name, value in schema.items() if name in _KEPT}
        for name in _SCHEMA_MAPS:
            if isinstance(members := schema.get(name), dict):
                form[name] = {each: self._convert(value) for each, value in members.items()}
        form |= {name: self._convert(schema[name]) for name in _SCHEMAS if name in schema}
        self._add_alternatives(schema, form)
        self._add_values(schema, form)
        self._add_reference(schema, form)
        self._add_properties_by_pattern(schema, form)
        self._add_items(schema, form)
        self._add_exact(schema, form)
        self._explain(schema, form)
        return form

    def _add_alternatives(self, schema: Mapping[str, Any], form: dict[str, Any]) -> None:
        for name, kept in _LISTS.items():
            if not isinstance(branches := schema.get(name), list):
                continue
            converted = [self._convert(each) for each in branches]
            if kept in form:
                # Both of `anyOf` and `oneOf`.
                form.setdefault("allOf", []).append({kept: converted})
            elif kept == "allOf":
                form[kept] = [*form.get(kept, ()), *converted]
            else:
                form[kept] = converted

    @staticmethod
    def _add_values(schema: Mapping[str, Any], form: dict[str, Any]) -> None:
        if "const" in schema:
            form["const"] = schema["const"]
        if isinstance(values := schema.get("enum"), list):
            distinct = list({_key(value): value for value in values}.values())
            name, value = ("enum", distinct) if distinct else ("not", {})
            form[name] = value
        if isinstance(pattern := schema.get("pattern"), str) and is_plain(pattern):
            form["pattern"] = pattern

    def _add_reference(self, schema: Mapping[str, Any], form: dict[str, Any]) -> None:
        found = next((schema[name] for name in _REFERENCES if isinstance(schema.get(name), str)), None)
        if found is None:
            return
        pointer = self._anchors.get(found, found)
        if self._is_wrapped and not pointer.startswith(("#/$defs/", "#/definitions/")):
            pointer = f"#/properties/{VALUE}{pointer[1:]}"
        form["$ref"] = pointer

    def _add_properties_by_pattern(self, schema: Mapping[str, Any], form: dict[str, Any]) -> None:
        if not isinstance(members := schema.get("patternProperties"), dict):
            return
        if all(map(is_plain, members)):
            form["patternProperties"] = {name: self._convert(value) for name, value in members.items()}
        else:
            # What they match would count as additional.
            form.pop("additionalProperties", None)

    def _add_items(self, schema: Mapping[str, Any], form: dict[str, Any]) -> None:
        items, tuples = schema.get("items"), schema.get("prefixItems")
        rest: Any = items
        if isinstance(items, list):
            # The drafts before 2020-12.
            tuples, rest = items, schema.get("additionalItems")
        if not isinstance(tuples, list):
            if rest is not None:
                form["items"] = self._convert(rest)
            return
        if (most := form.get("maxItems")) is not None and most <= len(tuples):
            rest = False
        positions = [*tuples, *([] if rest is False else [rest if isinstance(rest, dict) else True])]
        if True not in positions:
            distinct = _distinct([self._convert(each) for each in positions])
            form["items"] = {"anyOf": distinct} if distinct else {}
        if rest is False:
            form["maxItems"] = min(form.get("maxItems", len(tuples)), len(tuples))

    def _add_exact(self, schema: Mapping[str, Any], form: dict[str, Any]) -> None:
        """What would be stricter if anything in it were left out."""
        if "not" in schema and "not" not in form and (exact := self._exact(schema["not"])) is not None:
            form["not"] = exact
        branches = {name: schema[name] for name in ("then", "else") if name in schema}
        if "if" in schema and branches and (exact := self._exact(schema["if"])) is not None:
            form["if"] = exact
            form |= {name: self._convert(value) for name, value in branches.items()}
        if "contains" in schema and schema.get("minContains", 1) != 0:
            form["contains"] = self._convert(schema["contains"])

    def _exact(self, schema: Any) -> Any:
        """The same schema, if the form can have all of it; None otherwise, and within another such schema."""
        if self._must_be_exact:
            return None
        self._must_be_exact = True
        try:
            converted = self._convert(schema)
        finally:
            self._must_be_exact = False
        # What a reference refers to may be less than it was.
        return converted if converted == schema and '"$ref"' not in json.dumps(converted) else None

    def _explain(self, schema: Mapping[str, Any], form: dict[str, Any]) -> None:
        """Describe the constraints that the form lacks."""
        lacking = {name: schema[name] for name in schema if name in _EXPLAINED and name not in form}
        if isinstance(schema.get("items"), list) or "prefixItems" in lacking:
            lacking |= {"items": schema["items"]} if "items" in schema else {}
        if not lacking or self._chars_left <= 0 or self._must_be_exact:
            return
        text = json.dumps(lacking, ensure_ascii=False)
        self._chars_left -= len(text)
        if len(text) <= _MOST_EXPLAINED_CHARS:
            note = f"Must also match this JSON Schema: {text}"
            form["description"] = "\n".join(filter(None, [form.get("description"), note]))


def _distinct(schemas: list[Any]) -> list[Any]:
    if len(schemas) > _MOST_COMPARED:
        return schemas
    found: list[Any] = []
    for each in schemas:
        if each not in found:
            found.append(each)
    return found


def _key(value: Any) -> str:
    """Equal for what validators take for the same value."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _anchors(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The references that mean a place by its name, and that place as a pointer."""
    if isinstance(schema, dict):
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(name), str):
                escaped = (part.replace("~", "~0").replace("/", "~1") for part in path)
                yield f"#{anchor}", "/".join(["#", *escaped])
    for name, value in _members(schema):
        yield from _anchors(value, (*path, str(name)))


def _members(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _drop_dangling(schema: Any, root: Mapping[str, Any]) -> None:
    """Remove references to places that the form does not have."""
    for each in _schemas_in(schema):
        target = each.get("$ref")
        if isinstance(target, str) and resolved(root, target) is None:
            del each["$ref"]


def _has_endless_reference(form: dict[str, Any]) -> bool:
    """Whether to check a value with some part of the form means to check the same value with that part."""
    done, path = set[int](), set[int]()
    for start in _schemas_in(form):
        stack = [(start, iter(_on_the_same_value(start, form)))]
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
                stack.append((below, iter(_on_the_same_value(below, form))))
    return False


def _on_the_same_value(schema: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a value of this one is checked with as well."""
    found = [schema.get(name) for name in ("not", "if", "then", "else")]
    found += [each for name in ("anyOf", "allOf") for each in schema.get(name, ())]
    if "$ref" in schema:
        found.append(resolved(root, schema["$ref"]))
    return [each for each in found if isinstance(each, dict)]


def _schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """All schemas of the form."""
    if isinstance(schema, dict):
        yield schema
        for below in _subschemas(schema):
            yield from _schemas_in(below)


def _subschemas(schema: dict[str, Any]) -> Iterator[Any]:
    for name in (*_SCHEMA_MAPS, "patternProperties"):
        yield from schema.get(name, {}).values()
    for name in _SUBSCHEMAS:
        yield schema.get(name)
    for name in ("anyOf", "allOf"):
        yield from schema.get(name, ())
