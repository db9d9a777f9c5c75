"""ConversationLists: which conversations there are, and which of them have some words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from app.conversations.records import Conversation
from app.errors import Invalid
from app.ids import AccountId
from app.platform.concurrency.fair_semaphore import FairSemaphore
from app.platform.db import Database, Reader
from app.platform.pagination import PageRequest
from app.runs.conversations.records import ConversationFilter
from app.runs.conversations.repository import chosen_conversations, conversations_with, has_words

TURNS_PER_PAGE: Final = 1000
"""How many turns a page of a search examines; a conversation with more is examined as a whole."""
_SEARCHES: Final = 2
"""At the same time, so that others get connections to the database."""

ANY: Final = ConversationFilter()


@dataclass(frozen=True, slots=True)
class ConversationLists:
    """Lists of conversations. There is no index of words: see docs/decisions/0125."""

    database: Database
    _searches: FairSemaphore = field(default_factory=lambda: FairSemaphore(_SEARCHES), init=False)

    async def find(
        self, account_id: AccountId, page: PageRequest, chosen: ConversationFilter = ANY
    ) -> tuple[list[Conversation], str | None]:
        """A page of the conversations that are chosen, most recently used first, and the next page's cursor.

        A page of a search may have few conversations, or none, before the last one: each examines a limited
        number. Raises `Invalid` for words that have no word.
        """
        if chosen.words is not None:
            async with self._searches.slot(str(account_id)), self.database.snapshot() as reader:
                return await _search(reader, account_id, page, chosen, chosen.words)
        async with self.database.snapshot() as reader:
            found = await chosen_conversations(reader, account_id, page, chosen)
        return page.cut(found, _position)


async def _search(
    reader: Reader, account_id: AccountId, page: PageRequest, chosen: ConversationFilter, words: str
) -> tuple[list[Conversation], str | None]:
    if not await has_words(reader, words):
        raise Invalid.field("q", "must have a word")
    newest = await chosen_conversations(reader, account_id, replace(page, limit=TURNS_PER_PAGE), chosen)
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
