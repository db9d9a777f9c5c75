"""Principal: the caller of a request, its scopes, and what its key is restricted to."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal, Self, get_args

from app.errors import Forbidden
from app.ids import AccountId, ApiKeyId
from app.requests.attribution import KeyLabels, Labelled

Scope = Literal[
    "runs:write",
    "runs:read",
    "runs:approve",
    "runs:share",
    "runs:audit",
    "external:write",
    "receipts:read",
    "metrics:read",
    "keys:write",
    "budgets:write",
    "admin",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
OF_ADMIN: tuple[Scope, ...] = ("metrics:read", "keys:write", "budgets:write")
"""Scopes that `admin` includes."""


class ScopeMissing(Forbidden):
    """The API key lacks the scope for this request."""

    @classmethod
    def of(cls, scope: Scope) -> Self:
        return cls(f"This API key lacks the scope {scope}.")


class AccountSuspended(Forbidden):
    """The account of this API key is suspended."""

    code = "account_suspended"


class GraphNotAllowed(Forbidden):
    """This API key may not run this graph."""

    code = "graph_not_allowed"


class ModelNotAllowed(Forbidden):
    """This API key may not use a model that the run needs."""

    code = "model_not_allowed"


class OfAnotherEndUser(Forbidden):
    """This token is for another end user than the run or conversation."""

    code = "other_end_user"


@dataclass(frozen=True, slots=True)
class KeyLimit:
    """A limit of the use of the key `of` and of all keys that were made with it, together."""

    of: ApiKeyId
    requests_per_minute: int | None = None
    concurrent_runs: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """What restricts a key besides its scopes; None is no restriction.

    Graphs and models are ids, in which `*` stands for any characters.
    """

    expires_at: datetime | None = None
    graphs: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    limits: tuple[KeyLimit, ...] = ()
    """The key's own, after those of the keys that it was made with."""
    labels: KeyLabels | None = field(default=None, hash=False)

    @property
    def requests_per_minute(self) -> int | None:
        """The lowest of its limits."""
        return _least(limit.requests_per_minute for limit in self.limits)

    @property
    def concurrent_runs(self) -> int | None:
        """The lowest of its limits."""
        return _least(limit.concurrent_runs for limit in self.limits)

    @property
    def tokens_per_minute(self) -> int | None:
        """The lowest of its limits."""
        return _least(limit.tokens_per_minute for limit in self.limits)

    def allows_graph(self, graph_id: str) -> bool:
        return self.graphs is None or matches_any(graph_id, self.graphs)

    def allows_model(self, names: Iterable[str]) -> bool:
        """Whether the key may use the model with this id and these aliases."""
        return self.models is None or any(matches_any(name, self.models) for name in names)


def _least(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


UNRESTRICTED = KeyTerms()


def matches_any(text: str, patterns: Iterable[str]) -> bool:
    """Whether an id, or all that a pattern matches, is matched by one of these patterns.

    Their only wildcard is `*`, so a pattern that is matched as text is matched with whatever replaces its
    own `*`.
    """
    return any(fnmatchcase(text, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of an API key, of a browser session of one, or of a token of a trusted issuer."""

    account_id: AccountId
    api_key_id: ApiKeyId
    scopes: frozenset[str]
    session_hash: bytes | None = None
    """The browser session; None for the API key itself."""
    terms: KeyTerms = UNRESTRICTED
    end_user: str | None = None
    """The only person whose runs and conversations are reached; None: all of the account."""
    person: str | None = None
    """Who has signed in and reaches all of the account: the end user of their runs that name none."""

    @property
    def rated_as(self) -> Hashable:
        """What its requests and readers are counted by: the end users of an issuer share a key."""
        return self.api_key_id if self.end_user is None else (self.api_key_id, self.end_user)

    @property
    def reads_all(self) -> bool:
        """Whether it may read what other keys of the account have started."""
        return self.end_user is None and self.may("runs:read")

    @property
    def labels(self) -> KeyLabels | None:
        return self.terms.labels or (None if self.person is None else KeyLabels.of(end_user=self.person))

    @property
    def own_end_user(self) -> str | None:
        return None if self.labels is None else self.labels.end_user

    def may(self, scope: Scope) -> bool:
        """Whether the key has this scope; `admin` includes some others."""
        return scope in self.scopes or (scope in OF_ADMIN and "admin" in self.scopes)

    def require(self, scope: Scope) -> None:
        """Raise `ScopeMissing` naming the scope that is missing."""
        if not self.may(scope):
            raise ScopeMissing.of(scope)

    def labelled(self, request: Labelled) -> Labelled:
        """A request with the labels of the key; raises `Invalid` for one that names others than it may."""
        return request if self.labels is None else self.labels.applied_to(request)

    def require_reading(self, started_by: ApiKeyId, end_user: str | None = None) -> None:
        """Raise `ScopeMissing` unless the key may read runs that the key `started_by` started.

        A token may read those of its `end_user`, whichever key started them: `OfAnotherEndUser`.
        """
        if self.end_user is not None:
            if end_user != self.end_user:
                raise OfAnotherEndUser
        elif started_by != self.api_key_id:
            self.require("runs:read")
