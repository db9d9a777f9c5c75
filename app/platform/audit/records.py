"""The data of the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.ids import AccountId, ApiKeyId

Via = Literal["http", "command", "server"]
"""`server`: by a server itself, when it starts."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something, and from where."""

    via: Via
    key_id: ApiKeyId | None = None
    account_id: AccountId | None = None
    address: str | None = None
    """Of the client; of a command the name of its host."""
    request_id: str | None = None


SERVER = Actor("server")


@dataclass(frozen=True, slots=True)
class Change:
    """What is done; `before` and `after` are what has changed, without secrets."""

    account_id: AccountId
    """To which account it is done."""
    action: str
    target: str
    """The id of what changes."""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A row of the audit log."""

    id: UUID
    at: datetime
    account_id: AccountId
    action: str
    target: str
    via: Via
    actor_key_id: ApiKeyId | None
    actor_account_id: AccountId | None
    address: str | None
    request_id: str | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries are listed; None means all."""

    account_id: AccountId | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Exclusive."""
