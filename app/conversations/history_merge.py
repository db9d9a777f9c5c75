"""What of a client's history a conversation has already; pure.

Chat clients post their whole history with every message. Sent again, the model would hear it
twice; left unread, a history that was edited would silently be answered as if it had not been.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from app.conversations.history_text import escape_tags
from app.conversations.transcript import ConversationMessage
from app.errors import Conflict
from app.requests import Message


class HistoryConflict(Conflict):
    """The messages before the last do not end as this conversation does; fork it or leave them out."""

    code = "history_contradicts"


def new_messages(messages: Sequence[Message], said: Sequence[ConversationMessage]) -> list[Message]:
    """The messages the conversation does not have: the last one, and what is said to the system.

    The client's history must be the conversation's end, all of it or a part. Only texts count, and
    not their white space; of what an agent said in a turn its last words are enough, and of words
    that were cut off a beginning. Raises `HistoryConflict`.
    """
    *earlier, _ = (message for message in messages if message.role != "system")
    theirs = _turns(_Said(message.role, message.text) for message in earlier)
    ours = _turns(
        _Said(message.type.removesuffix("_message"), message.content, message.partial)
        for message in said
        if message.type in {"user_message", "assistant_message"}
    )
    if len(theirs) > len(ours) or not all(map(_agrees, theirs, ours[len(ours) - len(theirs) :])):
        raise HistoryConflict
    last = messages[-1]
    return [message for message in messages if message.role == "system" or message is last]


class _Said(NamedTuple):
    role: str
    text: str
    cut: bool = False


def _turns(spoken: Iterable[_Said]) -> list[list[_Said]]:
    """Neighbouring texts of one role together, each without its white space."""
    bare = [said._replace(text="".join(escape_tags(said.text).split())) for said in spoken]
    return [list(turn) for _, turn in groupby(filter(_text, bare), key=_role)]


def _agrees(theirs: Sequence[_Said], ours: Sequence[_Said]) -> bool:
    if theirs[0].role != ours[0].role:
        return False
    text, whole = "".join(map(_text, theirs)), "".join(map(_text, ours))
    if ours[-1].cut and (whole.startswith(text) or text.startswith(whole)):
        return True
    return text == whole or (ours[0].role == "assistant" and text == ours[-1].text)


_role, _text = attrgetter("role"), attrgetter("text")
