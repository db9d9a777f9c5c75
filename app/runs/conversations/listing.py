"""Lists of conversations: which there are, and which of them have some words.

There is no index of words: see docs/decisions/0125.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from app.conversations.records import Conversation
from app.errors import Invalid
from app.platform.db import Reader
from app.platform.pagination import PageRequest
from app.requests.principal import Principal
from app.runs.conversations.records import ConversationFilter
from app.runs.conversations.repository import chosen_conversations, conversations_with, has_words

TURNS_PER_PAGE: Final = 1000
"""How many turns a page of a search examines; a conversation with more is examined as a whole."""


async def list_chosen(
    reader: Reader, caller: Principal, page: PageRequest, chosen: ConversationFilter
) -> tuple[list[Conversation], str | None]:
    """A page of the caller's chosen conversations, most recently used first, and the next page's cursor.

    A page of a search may have few conversations, or none, before the last one: each examines a limited
    number. Raises `Invalid` for words that have no word.
    """
    if (words := chosen.words) is None:
        return page.cut(await chosen_conversations(reader, caller, page, chosen), _position)
    if not await has_words(reader, words):
        raise Invalid.field("q", "must have a word")
    newest = await chosen_conversations(reader, caller, replace(page, limit=TURNS_PER_PAGE), chosen)
    examined = list(_examined(newest))
    if not examined:
        return [], None
    found = await conversations_with(reader, examined, words, page)
    if len(found) <= page.limit:
        _, cursor = replace(page, limit=len(examined)).cut(newest, _position)
        return found, cursor
    return page.cut(found, _position)


def _examined(newest: Sequence[Conversation]) -> Iterator[Conversation]:
    turns = 0
    for conversation in newest[:TURNS_PER_PAGE]:
        if turns >= TURNS_PER_PAGE:
            return
        turns += max(1, conversation.turns)
        yield conversation


def _position(conversation: Conversation) -> tuple[datetime, str]:
    return conversation.updated_at, conversation.state_key
