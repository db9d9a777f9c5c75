"""Earlier turns as one text for a model that takes user messages only, and back again; pure.

JSON escapes every line break, so no text inside a message can end its line and pose as another
role; "<" is escaped too, so none can write the tag that closes the record. Outside a record the tag
is escaped wherever a client wrote it, so that no message can pose as one.
"""

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

_OPEN, _CLOSE = "<conversation_so_far>", "</conversation_so_far>"
_TAG = re.compile(r"<(?=[\s/]*conversation_so_far\b)", re.IGNORECASE)
_ROLES = ("user", "assistant")


class HistoryTurn(NamedTuple):
    """Who said what."""

    role: str
    text: str


def written(turns: Iterable[HistoryTurn]) -> str:
    """The turns as a record."""
    lines = [
        json.dumps({"role": turn.role, "content": turn.text}, ensure_ascii=False).replace("<", "\\u003c")
        for turn in turns
    ]
    return "\n".join([_OPEN, *lines, _CLOSE])


def escape_tags(text: str) -> str:
    """The text of a client as the model is told it: word for word, but for the tags of a record."""
    return _TAG.sub("&lt;", text)


def read(text: str) -> list[HistoryTurn] | None:
    """The turns of a record; None when the text is none."""
    lines = text.split("\n")
    if lines[0] != _OPEN or lines[-1] != _CLOSE:
        return None
    try:
        turns = [json.loads(line) for line in lines[1:-1]]
    except (ValueError, RecursionError):
        return None
    return (
        [HistoryTurn(turn["role"], turn["content"]) for turn in turns] if all(map(_is_turn, turns)) else None
    )


def _is_turn(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() != {"role", "content"}:
        return False
    return isinstance(value["content"], str) and value["role"] in _ROLES
