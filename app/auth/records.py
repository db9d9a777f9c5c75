"""The data of accounts, API keys and browser sessions."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from app.ids import AccountId, ApiKeyId


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key without its secret."""

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
    """A valid session and the API key it stands for."""

    account_id: AccountId
    account: str
    api_key_id: ApiKeyId
    key_name: str | None
    key_prefix: str
    scopes: tuple[str, ...]
    expires_at: datetime


class Credential(NamedTuple):
    """An API key, or a browser session that stands for one."""

    api_key_id: ApiKeyId
    session_hash: bytes | None
