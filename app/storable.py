"""Replacement of what PostgreSQL and JSON cannot store in foreign values; pure.

PostgreSQL has no U+0000, UTF-8 has no lone surrogates, JSON has neither NaN nor infinities. Values of
models, providers and tools are replaced where they enter; invalid client input is refused instead.
"""

import hashlib
import math
import re
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

REPLACEMENT = "\ufffd"
MAX_DEPTH = 100
"""Deeper values become U+FFFD: the JSON writer and Python's stack do not support much more."""

MAX_IDENTIFIER_CHARS = 200
"""PostgreSQL refuses rows whose indexed columns have more than about 2 700 bytes together."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_IDENTIFIER = re.compile(rf"[!-~]{{1,{MAX_IDENTIFIER_CHARS}}}")
_KEPT_CHARS = 100


def is_storable(text: str) -> bool:
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        # A hundred times as fast as a search; a text may have 20 MB.
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(value: T) -> T:
    """The value with U+FFFD for U+0000 and lone surrogates, and None for NaN and infinities.

    Takes text, JSON, and data classes of both. Copies only what changes; lengths stay the same.
    """
    changed: T = _storable(value, MAX_DEPTH)
    return changed


def identifier(text: str) -> str:
    """A foreign name as a short one of printable ASCII.

    A name that already is one stays unchanged; others keep their beginning and get a hash.
    """
    if _IDENTIFIER.fullmatch(text):
        return text
    digest = hashlib.sha256(storable(text).encode()).hexdigest()[:32]
    return f"{re.sub('[^!-~]', '_', text[:_KEPT_CHARS])}~{digest}"


def _storable(value: Any, depth: int) -> Any:
    match value:
        case str():
            return value if is_storable(value) else _UNSTORABLE.sub(REPLACEMENT, value)
        case float():
            return value if math.isfinite(value) else None
        case dict() | list() | tuple():
            return _members(value, depth - 1) if depth else REPLACEMENT
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _data(value, depth)
        case _:
            return value


def _members(value: Any, depth: int) -> Any:
    items = [_storable(item, depth) for item in (value.values() if isinstance(value, dict) else value)]
    if isinstance(value, dict):
        names = [_storable(name, depth) for name in value]
        same = _same(names, value) and _same(items, value.values())
        return value if same else dict(zip(names, items, strict=True))
    return value if _same(items, value) else type(value)(items)


def _data(value: Any, depth: int) -> Any:
    changed = {each.name: _storable(getattr(value, each.name), depth) for each in fields(value)}
    different = {name: item for name, item in changed.items() if item is not getattr(value, name)}
    return replace(value, **different) if different else value


def _same(items: Any, others: Any) -> bool:
    return all(item is other for item, other in zip(items, others, strict=True))
