"""The calls of accounts and keys, one function for each."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal
from uuid import uuid4

from pydantic.alias_generators import to_camel

from runtally.accounts.types import (
    Account,
    AccountBalance,
    ApiKey,
    AuditEntry,
    AuditFilters,
    GrantTerms,
    KeyOptions,
)
from runtally.options import moment
from runtally.protocol.call import Call, Page, nothing, one, page_call, segment


def create_account(name: str) -> Call[Account]:
    """Create an account."""
    return Call(method="POST", path="/v1/accounts", body={"name": name}, parse=one(Account), repeatable=False)


def list_accounts(cursor: str | None) -> Call[Page[Account]]:
    """A page of accounts."""
    return page_call("/v1/accounts", Account, cursor)


def get_account(name: str) -> Call[AccountBalance]:
    """The credit of an account."""
    return Call(method="GET", path=f"/v1/accounts/{segment(name)}", parse=one(AccountBalance))


def change_credit(
    name: str, usd: Decimal, *, kind: Literal["grants", "adjustments"], terms: GrantTerms
) -> Call[AccountBalance]:
    """Grant or adjust credit, once however often it is sent."""
    body = {to_camel(term): value for term, value in terms.items()}
    if "expires_at" in terms:
        body["expiresAt"] = moment(terms["expires_at"])
    return Call(
        method="POST",
        path=f"/v1/accounts/{segment(name)}/{kind}",
        body={**body, "usd": f"{usd:f}"},
        headers={"Idempotency-Key": str(uuid4())},
        parse=one(AccountBalance),
    )


def change_account(name: str, changed: dict[str, Any]) -> Call[None]:
    """Rename, suspend or resume an account, or change for how long it keeps contents."""
    return Call(method="PATCH", path=f"/v1/accounts/{segment(name)}", body=changed, parse=nothing)


def create_key(account: str, scopes: Sequence[str], options: KeyOptions) -> Call[ApiKey]:
    """Create a key of an account."""
    body: dict[str, Any] = {"scopes": list(scopes)}
    for name in ("name", "graphs", "models"):
        if name in options:
            body[name] = options[name]
    if "expires_at" in options:
        body["expiresAt"] = moment(options["expires_at"])
    limits = ("requests_per_minute", "concurrent_runs", "tokens_per_minute")
    body["limits"] = {to_camel(name): options.get(name) for name in limits if name in options}
    labels = {"endUser": "end_user", "tags": "tags", "fixed": "fixed_labels"}
    if any(name in options for name in labels.values()):
        body["labels"] = {shown: options.get(name) for shown, name in labels.items() if name in options}
    path = f"/v1/accounts/{segment(account)}/keys"
    # Twice, it would make two keys.
    return Call(method="POST", path=path, body=body, parse=one(ApiKey), repeatable=False)


def list_keys(account: str, cursor: str | None) -> Call[Page[ApiKey]]:
    """A page of the keys of an account."""
    return page_call(f"/v1/accounts/{segment(account)}/keys", ApiKey, cursor)


def rotate_key(key_id: str, overlap_s: int) -> Call[ApiKey]:
    """Replace a key."""
    body = {"overlapS": overlap_s}
    path = f"/v1/keys/{segment(key_id)}/rotate"
    return Call(method="POST", path=path, body=body, parse=one(ApiKey), repeatable=False)


def revoke_key(key_id: str, *, stop_runs: bool) -> Call[None]:
    """Revoke a key."""
    query = {"stopRuns": "true"} if stop_runs else {}
    return Call(method="DELETE", path=f"/v1/keys/{segment(key_id)}", query=query, parse=nothing)


def list_audit(filters: AuditFilters, cursor: str | None) -> Call[Page[AuditEntry]]:
    """A page of the audit log."""
    query = {}
    if "account" in filters:
        query["account"] = filters["account"]
    if "action" in filters:
        query["action"] = filters["action"]
    if "since" in filters:
        query["from"] = moment(filters["since"])
    if "until" in filters:
        query["to"] = moment(filters["until"])
    return page_call("/v1/audit", AuditEntry, cursor, query)
