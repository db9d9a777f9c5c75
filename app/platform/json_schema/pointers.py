"""References such as `#/$defs/a`: what they point to within a JSON document; pure."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote

_MOST_DIGITS = 9


def parts_of(reference: str) -> list[str]:
    """The parts of the pointer after `#`, percent-decoded (RFC 6901); `~0` and `~1` as written."""
    return unquote(reference.removeprefix("#")).split("/")[1:]


def names_of(reference: str) -> tuple[str, ...]:
    """The names and indexes in a reference, as they are in the document."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts_of(reference))


def reference_to(names: Iterable[str]) -> str:
    """The reference to a place."""
    return reference_by(name.replace("~", "~0").replace("/", "~1") for name in names)


def reference_by(parts: Iterable[str]) -> str:
    """The reference with these parts, in which `~0` and `~1` are written."""
    return "/".join(["#", *(quote(part, safe="$~") for part in parts)])


def is_pointer(reference: str) -> bool:
    """Whether it is a place within the document, not the name of one."""
    return reference == "#" or reference.startswith("#/")


def child(place: Any, part: str) -> Any:
    """What an object or a list has at a part of a pointer; None if nothing."""
    name = part.replace("~1", "/").replace("~0", "~")
    if isinstance(place, list) and name.isdecimal() and len(name) <= _MOST_DIGITS and int(name) < len(place):
        return place[int(name)]
    return place.get(name) if isinstance(place, dict) else None


def resolved(document: Any, reference: str) -> Any:
    """What a reference within the document points to; None if nothing, or if it is no pointer."""
    if not is_pointer(reference):
        return None
    place = document
    for part in parts_of(reference):
        place = child(place, part)
    return place
