"""The data of accounts, API keys and browser sessions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypedDict

from app.auth.roles import OWN_ONLY
from app.ids import AccountId, ApiKeyId
from app.platform.issuers.persons import Role
from app.platform.storage.records import Retention
from app.requests.attribution import KeyLabels
from app.requests.principal import KeyTerms, Principal, Scope


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key without its secret."""

    id: ApiKeyId
    account_id: AccountId
    account: str
    name: str | None
    prefix: str
    scopes: tuple[str, ...]
    terms: KeyTerms
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    is_ended: bool
    """Whether it is revoked or has expired."""
    is_suspended: bool
    """Whether its account is."""

    @property
    def principal(self) -> Principal:
        """Its holder."""
        return Principal(self.account_id, self.id, frozenset(self.scopes), terms=self.terms)


class NewKey(NamedTuple):
    """A key that is not stored yet."""

    id: ApiKeyId
    account_id: AccountId
    secret: str
    scopes: tuple[Scope, ...]
    name: str | None
    terms: KeyTerms
    counts_for: ApiKeyId | None = None
    """The key for whose budgets it counts as well; None: for its own only."""


class LockedKey(NamedTuple):
    """The state of a key that is locked."""

    is_ended: bool
    is_suspended: bool


class KeyOptions(TypedDict, total=False):
    """What a new key may have; what is omitted or None restricts nothing."""

    name: str | None
    expires_at: datetime | None
    graphs: Sequence[str] | None
    models: Sequence[str] | None
    requests_per_minute: int | None
    concurrent_runs: int | None
    tokens_per_minute: int | None
    labels: KeyLabels | None


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """An account."""

    id: AccountId
    name: str
    created_at: datetime
    suspended_at: datetime | None
    retention: Retention
    """Its own; what it does not limit is kept as by default."""


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """Who has signed in at an issuer."""

    name: str | None
    end_user: str
    role: Role


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A valid session and the API key it stands for."""

    account_id: AccountId
    account: str
    api_key_id: ApiKeyId
    key_name: str | None
    key_prefix: str
    scopes: tuple[str, ...]
    terms: KeyTerms
    expires_at: datetime
    """Of the session."""
    person: SignedInPerson | None
    """None: it was opened with the key itself."""

    def principal(self, session_hash: bytes) -> Principal:
        """Its holder, whose runs are labelled with the person."""
        key = Principal(
            self.account_id, self.api_key_id, frozenset(self.scopes), session_hash, terms=self.terms
        )
        if self.person is None:
            return key
        end_user = self.person.end_user
        if self.person.role not in OWN_ONLY:
            return replace(key, person=end_user)
        labels = KeyLabels.of(end_user=end_user, fixed=True)
        return replace(key, terms=replace(self.terms, labels=labels), end_user=end_user)


class Credential(NamedTuple):
    """An API key, or a browser session that stands for one."""

    api_key_id: ApiKeyId
    session_hash: bytes | None
