"""Roles: what persons may do who sign in, as sets of scopes."""

from collections.abc import Mapping
from typing import Final

from app.platform.issuers.persons import Role
from app.requests.principal import Scope

ROLES: Final[Mapping[Role, tuple[Scope, ...]]] = {
    "viewer": ("runs:read", "receipts:read"),
    "user": ("runs:write", "runs:read", "runs:share"),
    "billing": ("receipts:read",),
    # All that concerns the account alone.
    "admin": (
        *("runs:write", "runs:read", "runs:approve", "runs:share", "runs:audit", "external:write"),
        *("receipts:read", "keys:write", "budgets:write"),
    ),
}

OWN_ONLY: Final[frozenset[Role]] = frozenset({"user"})
"""Those of an end user, who reaches only what is their own."""
