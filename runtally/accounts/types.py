"""What the server says of accounts, keys and the audit log; and what is asked for."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from pydantic import AwareDatetime

from runtally.model import Model
from runtally.protocol.billing import Balance


class Account(Model):
    """An account; its keys are refused while it is suspended."""

    id: str
    name: str
    created_at: AwareDatetime
    suspended_at: AwareDatetime | None = None


class Retention(Model):
    """For how many days an account keeps contents; None: as by default."""

    contents_days: int | None = None
    events_days: int | None = None
    transcripts_days: int | None = None
    workspaces_days: int | None = None
    evidence_days: int | None = None


class AccountBalance(Balance):
    """The credit of an account, and for how long it keeps contents."""

    account: str
    suspended_at: AwareDatetime | None = None
    retention: Retention


class KeyLimits(Model):
    """The limits of a key; None: none of its own."""

    requests_per_minute: int | None = None
    concurrent_runs: int | None = None
    tokens_per_minute: int | None = None


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
    tokens_per_minute: int
    end_user: str
    tags: Mapping[str, str]
    fixed_labels: bool
    """Whether requests may name no other end user, and no other values of these tags."""


class RetentionDays(TypedDict, total=False):
    """For how many days contents are kept; None: as by default."""

    contents_days: int | None
    events_days: int | None
    transcripts_days: int | None
    workspaces_days: int | None
    evidence_days: int | None


class GrantTerms(TypedDict, total=False):
    """When the rest of a grant expires, and when it is spent: what has a lower priority is spent first."""

    note: str
    expires_at: datetime
    priority: int


class AuditFilters(TypedDict, total=False):
    """Which entries to list."""

    account: str
    action: str
    since: datetime
    until: datetime
