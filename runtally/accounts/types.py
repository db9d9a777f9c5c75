"""What the server says of accounts, keys and the audit log; and what is asked for."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from pydantic import AwareDatetime

from runtally.model import Model


class Account(Model):
    """An account; its keys are refused while it is suspended."""

    id: str
    name: str
    created_at: AwareDatetime
    suspended_at: AwareDatetime | None = None


class KeyLimits(Model):
    """The limits of a key; None: none of its own."""

    requests_per_minute: int | None = None
    concurrent_runs: int | None = None


class KeyLabels(Model):
    """What the runs of a key are labelled with; `fixed`: requests may name no other value."""

    end_user: str | None = None
    tags: dict[str, str] | None = None
    fixed: bool = False


class ApiKey(Model):
    """An API key and its rights. `key`, the key itself, is there only when it was made."""

    id: str
    account: str
    name: str | None = None
    prefix: str
    scopes: list[str]
    expires_at: AwareDatetime | None = None
    graphs: list[str] | None = None
    models: list[str] | None = None
    limits: KeyLimits
    labels: KeyLabels | None = None
    created_at: AwareDatetime
    last_used_at: AwareDatetime | None = None
    revoked_at: AwareDatetime | None = None
    key: str | None = None

    def __repr_args__(self) -> Any:
        """Without the key itself: a representation may be logged."""
        return [(name, value) for name, value in super().__repr_args__() if name != "key"]


class AuditEntry(Model):
    """What was done to an account, and by which key."""

    id: str
    at: AwareDatetime
    account: str
    action: str
    target: str
    via: str
    actor_key_id: str | None = None
    actor_account_id: str | None = None
    address: str | None = None
    request_id: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class KeyOptions(TypedDict, total=False):
    """What a new key may be restricted to, and what its runs are labelled with."""

    name: str
    expires_at: datetime
    graphs: Sequence[str]
    models: Sequence[str]
    requests_per_minute: int
    concurrent_runs: int
    end_user: str
    tags: Mapping[str, str]
    fixed_labels: bool
    """Whether requests may name no other end user, and no other values of these tags."""


class AuditFilters(TypedDict, total=False):
    """Which entries to list."""

    account: str
    action: str
    since: datetime
    until: datetime
