"""Conversations that clients create, with metadata and messages, before their first run."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from app.conversations.records import Conversation
from app.conversations.repository import (
    find_conversation,
    insert_conversation,
    lock_conversation,
    update_conversation,
)
from app.errors import Conflict, Invalid
from app.requests.principal import Principal
from app.runs.conversations.branching import load_tree
from app.runs.conversations.records import OpenedConversation, Opening
from app.runs.conversations.service import ConversationService, required
from app.runs.conversations.view import require_reading
from app.runs.repository import with_contents

_PREFIX: Final = "conv_"
_CREATED: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")
MOST_BYTES: Final = 65_536
"""Of an opening: lists of conversations read those of all their rows."""


class ConversationBegun(Conflict):
    """The items of this conversation are what its runs were asked and have answered."""

    code = "session_begun"


async def create_conversation(
    conversations: ConversationService, caller: Principal, opening: Opening
) -> Conversation:
    """Create a conversation; raises `StorageFull`, and `Invalid` for too many messages."""
    by_whom = opening.model_copy(update={"end_user": caller.own_end_user})
    new = Conversation.without_runs(caller.account_id, _PREFIX, opening=_stored(by_whom))
    async with conversations.database.transaction() as tx:
        await conversations.storage.require_room(tx, caller.account_id, _size(new.opening))
        return await insert_conversation(tx, new) or new


async def opened_conversation(
    conversations: ConversationService, caller: Principal, state_key: str
) -> OpenedConversation:
    """A conversation, however it began; raises `ConversationNotFound`, `ScopeMissing`."""
    async with conversations.database.snapshot() as reader:
        conversation = await required(find_conversation(reader, caller.account_id, state_key))
        await require_reading(reader, conversation, caller)
        path = (await load_tree(reader, conversation)).path(conversation.session_id)
        # A conversation may outlive the contents of thousands of its runs.
        kept = await with_contents(reader, caller.account_id, path)
    path = [run_id for run_id in path if run_id in kept]
    return OpenedConversation(conversation, _opening_of(conversation), path)


async def change_opened(
    conversations: ConversationService,
    caller: Principal,
    state_key: str,
    changed: Callable[[Opening], Opening],
) -> OpenedConversation:
    """Change what it was created with; raises what the functions above raise.

    And `ConversationBegun` if its messages would change after its first run.
    """
    async with conversations.database.transaction() as tx:
        conversation = await required(lock_conversation(tx, caller.account_id, state_key))
        await require_reading(tx, conversation, caller)
        after = changed(_opening_of(conversation))
        if after.messages != _without_begun(after, conversation).messages:
            raise ConversationBegun
        stored = _stored(after)
        if (more := _size(stored) - _size(conversation.opening)) > 0:
            await conversations.storage.require_room(tx, caller.account_id, more)
        await update_conversation(tx, conversation, opening=stored)
    return OpenedConversation(conversation, after)


async def drop_messages(conversations: ConversationService, caller: Principal, state_key: str) -> None:
    """Drop the messages, which the first run has now."""
    async with conversations.database.transaction() as tx:
        conversation = await lock_conversation(tx, caller.account_id, state_key)
        if conversation is not None and conversation.turns:
            await update_conversation(tx, conversation, opening=_stored(_opening_of(conversation)))


def is_created(state_key: str) -> bool:
    """Whether the key is of a conversation that a client has created here, or had before it was deleted."""
    return _CREATED.fullmatch(state_key) is not None


def _opening_of(conversation: Conversation) -> Opening:
    return _without_begun(Opening.model_validate(conversation.opening or {}), conversation)


def _without_begun(opening: Opening, conversation: Conversation) -> Opening:
    """The opening without messages if a run has them by now, or if it was not created here."""
    is_new = opening.api_key_id is not None and not conversation.turns
    return opening if is_new else opening.model_copy(update={"messages": ()})


def _size(opening: Mapping[str, Any] | None) -> int:
    return 0 if opening is None else len(json.dumps(opening))


def _stored(opening: Opening) -> dict[str, Any]:
    stored = opening.model_dump(mode="json", by_alias=True, exclude_none=True)
    if _size(stored) > MOST_BYTES:
        raise Invalid.field("items", f"have more than {MOST_BYTES} bytes together, before the first response")
    return stored
