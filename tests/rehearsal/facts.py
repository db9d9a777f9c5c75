"""Fact: one observable property of an installed package that code of ours depends on."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

Value: TypeAlias = str | dict[str, str]
"""A text, or texts by the names of their parts."""

THERE = "yes"
"""The value of a part that is only there or not."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One property; the same topic and name mean the same property in every environment."""

    topic: str
    name: str
    value: Value
    used_by: str
    """The files of ours that depend on it, or what else does."""


def names(found: Iterable[str]) -> dict[str, str]:
    """The value of a set of names."""
    return dict.fromkeys(sorted(found), THERE)


def shape(found: Any) -> str:
    """What kind of JSON value it is."""
    match found:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "list"
        case _:
            return "object"


def dumps(facts: Iterable[Fact]) -> str:
    """The facts as JSON."""
    return json.dumps([asdict(fact) for fact in facts], indent=1)


def loads(text: str) -> list[Fact]:
    """What `dumps` wrote."""
    return [Fact(**fact) for fact in json.loads(text)]
