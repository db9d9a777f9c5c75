"""References such as `#/$defs/a`: what they point to within a JSON document; pure."""

from typing import Any
from urllib.parse import unquote

_MOST_DIGITS = 9


def parts_of(reference: str) -> list[str]:
    """The parts of the pointer after `#`, percent-decoded (RFC 6901); `~0` and `~1` as written."""
    return unquote(reference.removeprefix("#")).split("/")[1:]


def child(place: Any, part: str) -> Any:
    """What an object or a list has at a part of a pointer; None if nothing."""
    name = part.replace("~1", "/").replace("~0", "~")
    if isinstance(place, list) and name.isdecimal() and len(name) <= _MOST_DIGITS and int(name) < len(place):
        return place[int(name)]
    return place.get(name) if isinstance(place, dict) else None


def resolved(document: Any, reference: str) -> Any:
    """What a reference within the document points to; None if nothing, or if it begins with no `#`."""
    if not reference.startswith("#"):
        return None
    place = document
    for part in parts_of(reference):
        place = child(place, part)
    return place
