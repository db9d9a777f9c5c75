"""OpenedConversations: conversations that clients create, with metadata and messages, before a run."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.conversations.records import Conversation
from app.conversations.repository import (
    change_opening,
    find_conversation,
    insert_conversation,
    lock_conversation,
)
from app.errors import Conflict, Forbidden, Invalid
from app.ids import new_uuid
from app.platform.db import Database
from app.platform.serialization.large_json import dumps
from app.platform.storage.service import StorageQuota
from app.requests.principal import Principal
from app.runs.conversations.branching import load_tree
from app.runs.conversations.records import OpenedConversation, Opening
from app.runs.conversations.service import ConversationNotFound
from app.runs.conversations.view import require_reading

_PREFIX: Final = "conv_"
_CREATED: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")
MOST_BYTES: Final = 65_536
"""Of an opening: lists of conversations read those of all their rows."""


class NotForTokens(Forbidden):
    """A token cannot create conversations: the first run of one that it names begins it."""

    code = "not_for_tokens"


class ConversationBegun(Conflict):
    """The items of this conversation are what its runs were asked and have answered."""

    code = "session_begun"


@dataclass(frozen=True, slots=True)
class OpenedConversations:
    """The conversations of all accounts, as those read them who create them."""

    database: Database
    storage: StorageQuota

    async def create(self, caller: Principal, opening: Opening) -> Conversation:
        """Create a conversation; raises `NotForTokens`, `StorageFull`, `Invalid` for too many messages."""
        if caller.end_user is not None:
            raise NotForTokens
        now = datetime.now(UTC)
        new = Conversation(
            account_id=caller.account_id,
            state_key=f"{_PREFIX}{new_uuid().hex}",
            session_id=new_uuid(),
            title=None,
            turns=0,
            forked_from=None,
            forked_at=None,
            created_at=now,
            updated_at=now,
            executor="",
            opening=_stored(opening),
        )
        async with self.database.transaction() as tx:
            await self.storage.require_room(tx, caller.account_id, len(dumps(new.opening)))
            return await insert_conversation(tx, new) or new

    async def get(self, caller: Principal, state_key: str) -> OpenedConversation:
        """A conversation, however it began; raises `ConversationNotFound`, `ScopeMissing`."""
        async with self.database.snapshot() as reader:
            conversation = await find_conversation(reader, caller.account_id, state_key)
            if conversation is None:
                raise ConversationNotFound
            await require_reading(reader, conversation, caller)
            tree = await load_tree(reader, conversation)
        path = tree.path(conversation.session_id)
        return OpenedConversation(conversation, _opening_of(conversation), path)

    async def change(
        self, caller: Principal, state_key: str, changed: Callable[[Opening], Opening]
    ) -> OpenedConversation:
        """Change what it was created with; raises what `get` and `create` raise.

        And `ConversationBegun` if its messages would change after its first run.
        """
        async with self.database.transaction() as tx:
            conversation = await lock_conversation(tx, caller.account_id, state_key)
            if conversation is None:
                raise ConversationNotFound
            await require_reading(tx, conversation, caller)
            before = _opening_of(conversation)
            after = changed(before)
            if after.messages != before.messages and not _is_new(conversation):
                raise ConversationBegun
            stored = _stored(after)
            await self.storage.require_room(tx, caller.account_id, len(dumps(stored)))
            await change_opening(tx, conversation, stored)
        return OpenedConversation(conversation, after)

    async def close(self, caller: Principal, state_key: str) -> None:
        """Drop the messages, which the first run has now."""
        async with self.database.transaction() as tx:
            conversation = await lock_conversation(tx, caller.account_id, state_key)
            if conversation is not None and conversation.turns:
                opening = _opening_of(conversation).model_copy(update={"messages": ()})
                await change_opening(tx, conversation, _stored(opening))


def is_created(state_key: str) -> bool:
    """Whether the key is of a conversation that a client has created here, or had before it was deleted."""
    return _CREATED.fullmatch(state_key) is not None


def _is_new(conversation: Conversation) -> bool:
    return conversation.opening is not None and not conversation.turns and conversation.forked_from is None


def _opening_of(conversation: Conversation) -> Opening:
    """What it was created with; without the messages that a run has by now."""
    opening = Opening.model_validate(conversation.opening or {})
    return opening if _is_new(conversation) else opening.model_copy(update={"messages": ()})


def _stored(opening: Opening) -> dict[str, Any]:
    stored = opening.model_dump(mode="json", by_alias=True, exclude_none=True)
    if len(dumps(stored)) > MOST_BYTES:
        raise Invalid.field("items", f"have more than {MOST_BYTES} bytes together, before the first response")
    return stored
