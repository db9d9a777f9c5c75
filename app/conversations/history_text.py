"""Encoding of earlier turns as one text, for a CLI that takes user messages only; pure.

JSON escapes every line break, so no text inside a message can end its line and pose as another
role; "<" is escaped too, so no text can contain the closing tag. Outside an encoded history the tag
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
    """One message of an earlier turn."""

    role: str
    text: str


def encode_history(turns: Iterable[HistoryTurn]) -> str:
    lines = [
        json.dumps({"role": turn.role, "content": turn.text}, ensure_ascii=False).replace("<", "\\u003c")
        for turn in turns
    ]
    return "\n".join([_OPEN, *lines, _CLOSE])


def attachment_note(kind: str, number: int) -> str:
    """The text of a turn that is an attachment, the one with this number (from 1) after the history."""
    return f"[{kind} {number}, attached below]"


def escape_tags(text: str) -> str:
    """A client's text for the model: unchanged except for the tags of an encoded history."""
    return _TAG.sub("&lt;", text)


def decode_history(text: str) -> list[HistoryTurn] | None:
    """The turns of an encoded history; None if the text is not one."""
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
