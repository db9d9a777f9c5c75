"""The data of logins of devices."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.ids import ApiKeyId

POLL_INTERVAL: Final = timedelta(seconds=5)
"""How often a device asks whether it is approved."""


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """The codes of a new login."""

    device_code: str
    user_code: str


@dataclass(frozen=True, slots=True)
class LoginTokens:
    """What a device signs in with."""

    access_token: str
    refresh_token: str


@dataclass(frozen=True, slots=True)
class RequestedLogin:
    """A login that waits for a person."""

    user_code: str
    client: str
    address: str | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class DeviceLogin:
    """A login, whose row is locked."""

    is_denied: bool
    api_key_id: ApiKeyId | None
    """None: nothing is decided yet."""
    approved_by: ApiKeyId | None
    refresh_seed: bytes
    refresh_hash: bytes | None
    previous_hash: bytes | None
    is_expired: bool
    is_early: bool
    """Whether the device asks again too soon."""
    is_repeatable: bool
    """Whether `previous_hash` is still answered."""
