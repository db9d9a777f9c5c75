"""Comparison of a history that a client posts with the conversation's own; pure.

Chat clients post their whole history with every message. Passed on, the model would get it twice;
ignored, an edited history would be answered as if it had not been edited.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from app.conversations.history_text import escape_tags
from app.conversations.messages import ConversationMessage
from app.errors import Conflict
from app.requests import Message


class HistoryConflict(Conflict):
    """The posted history differs from the end of this conversation; fork it, or omit earlier messages."""

    code = "history_contradicts"


def new_messages(messages: Sequence[Message], transcript: Sequence[ConversationMessage]) -> list[Message]:
    """The posted messages that the conversation lacks: the last one and the system messages.

    The posted history must equal the conversation's end, or a part of it. Only texts are compared,
    without white space; for an agent's turn its last text is enough, and for a text that was cut off
    its beginning. Raises `HistoryConflict`.
    """
    *earlier, _ = (message for message in messages if message.role != "system")
    posted = _turns(_Text(message.role, message.text) for message in earlier)
    stored = _turns(
        _Text(message.type.removesuffix("_message"), message.content, message.partial)
        for message in transcript
        if message.type in {"user_message", "assistant_message"}
    )
    if len(posted) > len(stored) or not all(map(_matches, posted, stored[len(stored) - len(posted) :])):
        raise HistoryConflict
    last = messages[-1]
    return [message for message in messages if message.role == "system" or message is last]


class _Text(NamedTuple):
    role: str
    text: str
    partial: bool = False


def _turns(texts: Iterable[_Text]) -> list[list[_Text]]:
    """Neighbouring texts of one role grouped, each without its white space."""
    bare = [text._replace(text="".join(escape_tags(text.text).split())) for text in texts]
    return [list(turn) for _, turn in groupby(filter(_text, bare), key=_role)]


def _matches(posted: Sequence[_Text], stored: Sequence[_Text]) -> bool:
    if posted[0].role != stored[0].role:
        return False
    text, whole = "".join(map(_text, posted)), "".join(map(_text, stored))
    if stored[-1].partial and (whole.startswith(text) or text.startswith(whole)):
        return True
    return text == whole or (stored[0].role == "assistant" and text == stored[-1].text)


_role, _text = attrgetter("role"), attrgetter("text")
