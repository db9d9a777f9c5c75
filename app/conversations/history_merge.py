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
from app.requests.messages import Message


class HistoryConflict(Conflict):
    """The posted history differs from the end of this conversation; fork it, or omit earlier messages."""

    code = "history_contradicts"


def new_messages(messages: Sequence[Message], transcript: Sequence[ConversationMessage]) -> list[Message]:
    """The posted messages that the conversation lacks: the last one and the system messages.

    The posted history must equal the conversation's end, or a part of it. Only texts are compared,
    without white space; for an agent's turn its last text is enough, and for a text that was cut off
    its beginning, or nothing of it: the client may have left before it came. Raises `HistoryConflict`.
    """
    *earlier, _ = (message for message in messages if message.role != "system")
    posted = _grouped(_bare(_Text(message.role, message.text) for message in earlier))
    stored = [
        _Text(message.type.removesuffix("_message"), message.content, message.partial)
        for message in transcript
        if message.type in {"user_message", "assistant_message"}
    ]
    if not _is_end_of(posted, stored):
        raise HistoryConflict
    last = messages[-1]
    return [message for message in messages if message.role == "system" or message is last]


class _Text(NamedTuple):
    role: str
    text: str
    partial: bool = False


def _bare(texts: Iterable[_Text]) -> list[_Text]:
    """The texts without their white space, if there is any left."""
    bare = [text._replace(text="".join(escape_tags(text.text).split())) for text in texts]
    return [text for text in bare if text.text]


def _grouped(texts: Iterable[_Text]) -> list[list[_Text]]:
    """Neighbouring texts of one role together."""
    return [list(turn) for _, turn in groupby(texts, key=_role)]


def _is_end_of(posted: Sequence[Sequence[_Text]], stored: Sequence[_Text]) -> bool:
    stored = _bare(stored)
    while True:
        turns = _grouped(stored)
        end = [*([()] * len(posted)), *turns][-len(posted) :] if posted else []
        differing = [back for back in range(1, len(posted) + 1) if not _matches(posted[-back], end[-back])]
        if not differing:
            return True
        # Where a text that the client has not seen is left out, the turns beside it are one.
        unseen = [
            index
            for index in range(max(0, len(turns) - differing[0] - 1), len(turns) - differing[0] + 1)
            if all(text.partial for text in turns[index])
        ]
        if not unseen:
            return False
        stored = [text for index, turn in enumerate(turns) if index != unseen[-1] for text in turn]


def _matches(posted: Sequence[_Text], stored: Sequence[_Text]) -> bool:
    if not stored or posted[0].role != stored[0].role:
        return False
    text, whole = "".join(map(_text, posted)), "".join(map(_text, stored))
    if stored[-1].partial and (whole.startswith(text) or text.startswith(whole)):
        return True
    return text == whole or (stored[0].role == "assistant" and text == stored[-1].text)


_role, _text = attrgetter("role"), attrgetter("text")
