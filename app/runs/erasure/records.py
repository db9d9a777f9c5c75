"""The data of erasures."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.ids import AccountId


@dataclass(frozen=True, slots=True)
class Erasure:
    """A job that erases an end user."""

    id: UUID
    account_id: AccountId
    end_user: str | None
    """None once it has ended."""
    runs: int
    """How many it has erased so far."""
    conversations: int
    receipts: int
    """On how many it has replaced the end user by its hash."""
    created_at: datetime
    ended_at: datetime | None
