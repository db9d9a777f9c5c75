"""The data of accounts, API keys and browser sessions."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from app.ids import AccountId, ApiKeyId


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key as it is kept: without the key."""

    id: ApiKeyId
    account_id: AccountId
    account: str
    name: str | None
    prefix: str
    scopes: tuple[str, ...]
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """An account."""

    id: AccountId
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A session that is not over, and the key it stands for."""

    account_id: AccountId
    account: str
    api_key_id: ApiKeyId
    key_name: str | None
    key_prefix: str
    scopes: tuple[str, ...]
    expires_at: datetime


class Credential(NamedTuple):
    """What somebody is let in with: an API key, or a session that stands for it."""

    api_key_id: ApiKeyId
    session_hash: bytes | None
