"""The data of grants."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from app.ids import AccountId, ApiKeyId


class GrantKey(NamedTuple):
    """What a grant is about."""

    account_id: AccountId
    state_key: str
    graph_id: str
    tool_id: str


@dataclass(frozen=True, slots=True)
class PermissionGrant:
    """A tool that a conversation's runs of one graph call without asking a person."""

    id: UUID
    graph_id: str
    tool_id: str
    api_key_id: ApiKeyId
    """The key whose holder has allowed it."""
    created_at: datetime
