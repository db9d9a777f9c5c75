"""Who may read a conversation."""

from app.conversations.records import Conversation
from app.platform.db import Reader
from app.requests.principal import Principal, ScopeMissing
from app.runs.revocation.repository import is_shared


async def require_reading(reader: Reader, conversation: Conversation, caller: Principal) -> None:
    """Raise `ScopeMissing` unless the caller may read runs or started every run of the conversation."""
    if caller.may("runs:read"):
        return
    # Forking requires permission to read, so a fork may contain messages of other keys.
    if conversation.forked_from is not None or await is_shared(reader, conversation, caller.api_key_id):
        raise ScopeMissing.of("runs:read")
