"""Earlier turns as one text for a model that takes user messages only, and back again; pure.

JSON escapes every line break, so no text inside a message can end its line and pose as another
role; "<" is escaped too, so none can write the tag that closes the record.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

_OPEN, _CLOSE = "<conversation_so_far>", "</conversation_so_far>"


class Spoken(NamedTuple):
    """Who said what."""

    role: str
    text: str


def written(turns: Iterable[Spoken]) -> str:
    """The turns as a record."""
    lines = [
        json.dumps({"role": turn.role, "content": turn.text}, ensure_ascii=False).replace("<", "\\u003c")
        for turn in turns
    ]
    return "\n".join([_OPEN, *lines, _CLOSE])


def read(text: str) -> list[Spoken] | None:
    """The turns of a record; None when the text is none."""
    lines = text.split("\n")
    if lines[0] != _OPEN or lines[-1] != _CLOSE:
        return None
    try:
        turns = [json.loads(line) for line in lines[1:-1]]
        return [Spoken(turn["role"], turn["content"]) for turn in turns]
    except (ValueError, TypeError, KeyError):
        return None
