"""The data of share links."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.ids import AccountId, ApiKeyId, RunId
from app.runs.conversations.page import PageEntry


@dataclass(frozen=True, slots=True)
class ConversationShare:
    """A link by which a conversation is read, up to a run."""

    id: UUID
    account_id: AccountId
    state_key: str
    last_run: RunId
    with_tool_calls: bool
    api_key_id: ApiKeyId
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SharedPage:
    """A page of what a link shows; `next_cursor` is None on the last one."""

    share: ConversationShare
    title: str | None
    entries: Sequence[PageEntry]
    next_cursor: str | None
