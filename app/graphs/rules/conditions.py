"""Checks a condition before it is used: its syntax, its names, and the types of what it compares."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cel_expr_python import cel

from app.graphs.rules.handler import EXTENSIONS, compiled
from app.platform.json_schema.pointers import resolved
from app.platform.serialization.strict_yaml import did_you_mean

FACTS: Final[Mapping[str, Mapping[str, str]]] = {
    "run": {
        "id": "string",
        "graph": "string",
        "model": "string",
        "conversation": "string",
        "attempt": "integer",
    },
    "account": {"id": "string", "keyId": "string"},
}
"""What conditions know besides the arguments; `run.conversation` is empty for a run without one."""

_MOST_NESTED = 4
_TYPES: Final = {
    "string": (cel.Type.STRING, cel.Type("google.protobuf.StringValue")),
    "integer": (cel.Type.INT, cel.Type("google.protobuf.Int64Value")),
    "number": (cel.Type.DOUBLE, cel.Type("google.protobuf.DoubleValue")),
    "boolean": (cel.Type.BOOL, cel.Type("google.protobuf.BoolValue")),
}
"""By the name in JSON schema, also for values that may be null."""

_OBJECT: Final = cel.Type.AbstractType("object")
"""Has no members but those that are declared as variables with dotted names."""

# The macro `has` takes no such variable; a function of the same length leaves the columns as they are.
_HAS: Final = cel.FunctionDecl("Has", [cel.Overload("has_dyn", cel.Type.BOOL, [cel.Type.DYN])])
_HAS_CALL: Final = re.compile(r"(?<![\w.])has(?=\s*\()")

_PLACE: Final = re.compile(r"<input>:(\d+):(\d+): (.*)")
_NO_MEMBER: Final = re.compile(r"expression of type 'object' cannot be the operand of a select operation")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_NO_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")


def problem_in(condition: str, arguments: Mapping[str, Any] | None) -> str | None:
    """What is wrong with a condition; `arguments` is the JSON schema of `args`, None if that is unknown."""
    declared = dict(_declared("args", {} if arguments is None else arguments, arguments or {}))
    if arguments is None:
        declared["args"] = cel.Type.DYN
    for name, facts in FACTS.items():
        fields = {fact: {"type": kind} for fact, kind in facts.items()}
        declared |= dict(_declared(name, {"properties": fields}, {}))
    try:
        compiled(condition)
        typed = cel.NewEnv(variables=declared, extensions=EXTENSIONS, functions=[_HAS])
        returned = typed.compile(_HAS_CALL.sub("Has", condition)).return_type()
    except RuntimeError as error:
        return _explained(str(error), condition, [name for name in declared if "." in name])
    if returned in (cel.Type.BOOL, cel.Type.DYN):
        return None
    return f"must be true or false, not {_shown(returned.name())}"


def _declared(
    name: str, schema: Mapping[str, Any], document: Mapping[str, Any], depth: int = 0
) -> Iterator[tuple[str, cel.Type]]:
    """A value and its known members, by their dotted names."""
    schema = _referred(schema, document)
    members = schema.get("properties")
    if not isinstance(members, dict) or depth > _MOST_NESTED:
        yield name, _OBJECT if depth == 0 else _type(schema, document)
        return
    yield name, _OBJECT
    for member, each in members.items():
        yield from _declared(f"{name}.{member}", each if isinstance(each, dict) else {}, document, depth + 1)


def _referred(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = resolved(document, schema["$ref"]) if isinstance(schema.get("$ref"), str) else schema
    return found if isinstance(found, dict) else schema


def _type(schema: Mapping[str, Any], document: Mapping[str, Any]) -> cel.Type:
    """The type of a value that is no object with known members; any type where the schema has several."""
    schema = _referred(schema, document)
    choices = schema.get("anyOf")
    others = [each for each in choices if each != {"type": "null"}] if isinstance(choices, list) else []
    if len(others) == 1 and others[0].get("type") in _TYPES:
        return _TYPES[others[0]["type"]][1]
    kind, items = schema.get("type"), schema.get("items")
    if kind == "array" and isinstance(items, dict):
        return cel.Type.List(_type(items, document))
    return _TYPES[kind][0] if isinstance(kind, str) and kind in _TYPES else cel.Type.DYN


def _explained(error: str, condition: str, known: list[str]) -> str:
    """The library's first error, in our words."""
    if (place := _PLACE.search(error)) is None:
        return "is not a CEL expression that can be evaluated: it may be nested too deeply"
    line, column, text = int(place[1]), int(place[2]), place[3]
    source = condition.splitlines()[line - 1] if condition.splitlines() else ""
    if _NO_MEMBER.search(text):
        before, after = (
            re.search(r"[\w.`-]*$", source[: column - 1]),
            re.match(r"\.\w*", source[column - 1 :]),
        )
        name = (before[0] if before else "") + (after[0] if after else "")
        return f"there is no {name}{did_you_mean(name, known) or _listed(known, name)}"
    if found := _UNDECLARED.search(text):
        return f"there is no {found[1]}; there are args, run and account, and the functions of CEL"
    if found := _NO_OVERLOAD.search(text):
        operation = found[1].strip("_@") if found[1] != "_[_]" else "[]"
        return f"{operation} cannot be used with {_shown(found[2])}"
    return f"is not a CEL expression: there is a mistake at character {column} of line {line}"


def _listed(known: list[str], name: str) -> str:
    root = name.partition(".")[0]
    members = ", ".join(each for each in known if each.startswith(f"{root}."))
    return f"; there are {members}" if members else ""


def _shown(types: str) -> str:
    """Names of types, as their authors know them."""
    plain = re.sub(r"wrapper\((\w+)\)|(\w+)_wrapper", lambda found: found[1] or found[2], types)
    return plain.lower().replace(", ", " and ")
