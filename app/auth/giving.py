"""What a key may give to another one: at most what it has itself; pure."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from app.auth.records import KeyOptions, KeyRecord
from app.errors import FieldError, Forbidden, Invalid
from app.ids import ApiKeyId
from app.requests.principal import UNRESTRICTED, KeyLimit, KeyTerms, Principal, Scope, matches_any

MAX_PATTERNS = 100
PATTERN = r"^[A-Za-z0-9*][A-Za-z0-9_.:*-]{0,199}$"
"""Ids of graphs, or ids and aliases of models, in which `*` stands for any characters."""


class ExceedsOwnRights(Forbidden):
    """This API key can give only what it has itself."""

    code = "exceeds_own_rights"

    @classmethod
    def at(cls, field: str) -> "ExceedsOwnRights":
        """The error for a field of the key that is to be made."""
        detail = f"{field}: exceeds what this API key has itself."
        return cls(detail, errors=[FieldError(field, "exceeds what this API key has itself")])


def new_terms(giver: Principal | None, key_id: ApiKeyId, options: KeyOptions) -> KeyTerms:
    """The terms of a new key; what is not asked for is as with the giver, which is None for an operator.

    Raises `Invalid`, and `ExceedsOwnRights` naming the field.
    """
    own = UNRESTRICTED if giver is None else giver.terms
    expires_at = options.get("expires_at")
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise Invalid.field("expiresAt", "must be in the future")
    limit = KeyLimit(
        key_id,
        options.get("requests_per_minute"),
        options.get("concurrent_runs"),
        options.get("tokens_per_minute"),
    )
    if (
        _is_above(limit.requests_per_minute, own.requests_per_minute)
        or _is_above(limit.concurrent_runs, own.concurrent_runs)
        or _is_above(limit.tokens_per_minute, own.tokens_per_minute)
    ):
        raise ExceedsOwnRights.at("limits")
    wanted = KeyTerms(
        expires_at or own.expires_at,
        _patterns("graphs", options.get("graphs")) or own.graphs,
        _patterns("models", options.get("models")) or own.models,
        (*own.limits, limit) if limit != KeyLimit(key_id) else own.limits,
        options.get("labels") or own.labels,
    )
    require_within(own, wanted)
    return wanted


def require_scopes(giver: Principal, scopes: Iterable[Scope]) -> None:
    """Raise `ExceedsOwnRights` unless the giver has these scopes, or may do anything for all accounts."""
    if "admin" not in giver.scopes and not all(giver.may(scope) for scope in scopes):
        raise ExceedsOwnRights.at("scopes")


def require_rights_of(caller: Principal, key: KeyRecord) -> None:
    """Raise `ExceedsOwnRights` unless the caller has all that the key has; its own key it always has."""
    if key.id == caller.api_key_id:
        return
    if "admin" not in caller.scopes and not caller.scopes.issuperset(key.scopes):
        raise ExceedsOwnRights.at("scopes")
    require_within(caller.terms, key.terms)


def require_within(own: KeyTerms, wanted: KeyTerms) -> None:
    """Raise `ExceedsOwnRights` naming the first field of some terms that allows more than others do."""
    if own.expires_at is not None and (wanted.expires_at is None or wanted.expires_at > own.expires_at):
        raise ExceedsOwnRights.at("expiresAt")
    for field, allowed, given in (
        ("graphs", own.graphs, wanted.graphs),
        ("models", own.models, wanted.models),
    ):
        if allowed is not None and not (given and all(matches_any(each, allowed) for each in given)):
            raise ExceedsOwnRights.at(field)
    if not set(own.limits).issubset(wanted.limits):
        raise ExceedsOwnRights.at("limits")
    if own.labels and own.labels.fixed and not (wanted.labels and wanted.labels.includes(own.labels)):
        raise ExceedsOwnRights.at("labels")


def _is_above(wanted: int | None, own: int | None) -> bool:
    return wanted is not None and own is not None and wanted > own


def _patterns(field: str, given: Sequence[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    if not 1 <= len(given) <= MAX_PATTERNS:
        raise Invalid.field(field, f"must have 1 to {MAX_PATTERNS} entries; omit it to allow all")
    wrong = [each for each in given if not re.fullmatch(PATTERN, each)]
    if wrong:
        raise Invalid.field(field, f"{wrong[0][:100]!r} is not an id in which * may stand for any characters")
    return tuple(dict.fromkeys(given))
