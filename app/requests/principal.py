"""Principal: the caller of a request and its scopes."""

from dataclasses import dataclass
from typing import Literal, Self, get_args

from app.errors import Forbidden
from app.ids import AccountId, ApiKeyId

Scope = Literal[
    "runs:write", "runs:read", "runs:approve", "runs:audit", "receipts:read", "metrics:read", "admin"
]
SCOPES: tuple[Scope, ...] = get_args(Scope)


class ScopeMissing(Forbidden):
    """The API key lacks the scope for this request."""

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """The error for this scope."""
        return cls(f"This API key lacks the scope {scope}.")


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of an API key, or of a browser session of one."""

    account_id: AccountId
    api_key_id: ApiKeyId
    scopes: frozenset[str]
    session_hash: bytes | None = None
    """The browser session; None for the API key itself."""

    def may(self, scope: Scope) -> bool:
        """Whether the key has this scope; operators may read metrics without a scope for it."""
        return scope in self.scopes or (scope == "metrics:read" and "admin" in self.scopes)

    def require(self, scope: Scope) -> None:
        """Raise `ScopeMissing` naming the scope that is missing."""
        if not self.may(scope):
            raise ScopeMissing.of(scope)

    def require_reading(self, started_by: ApiKeyId) -> None:
        """Raise `ScopeMissing` unless the key may read runs that the key `started_by` started."""
        if started_by != self.api_key_id:
            self.require("runs:read")
