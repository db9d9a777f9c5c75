"""SQL for accounts and API keys."""

from collections.abc import Collection
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Text, and_, bindparam, case, delete, func, literal, null, or_, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import RowMapping

from app.auth.keys import hash_key, key_prefix
from app.auth.records import AccountRecord, KeyRecord, LockedKey, NewKey
from app.auth.tables import accounts, api_keys, browser_sessions
from app.ids import AccountId, ApiKeyId, new_uuid
from app.platform.db import Reader, Transaction, page_of
from app.platform.pagination import PageRequest
from app.platform.postgres.prepared import Prepared, Row
from app.platform.storage.records import Retention
from app.requests.attribution import KeyLabels
from app.requests.principal import KeyLimit, KeyTerms

IS_ENDED = or_(
    api_keys.c.revoked_at.is_not(None),
    and_(api_keys.c.expires_at.is_not(None), api_keys.c.expires_at <= func.now()),
)
"""Whether a key is revoked or has expired."""

TERMS = (
    api_keys.c.expires_at.label("key_expires_at"),
    api_keys.c.graphs,
    api_keys.c.models,
    api_keys.c.limits,
    api_keys.c.labels,
)

_STATE = (IS_ENDED.label("is_ended"), accounts.c.suspended_at.is_not(None).label("is_suspended"))


async def insert_account(tx: Transaction, name: str) -> AccountRecord | None:
    """Insert an account; None if there is one with this name."""
    inserted = await tx.execute(
        postgresql.insert(accounts)
        .values(id=new_uuid(), name=name, created_at=func.now())
        .on_conflict_do_nothing(index_elements=["name"])
        .returning(*_ACCOUNT)
    )
    row = inserted.mappings().one_or_none()
    return None if row is None else _account_record(row)


async def lock_account(tx: Transaction, account_id: AccountId) -> AccountRecord:
    """The account, which no other transaction can change before this one ends; it can be referred to."""
    statement = _ACCOUNTS.where(accounts.c.id == account_id).with_for_update(key_share=True)
    return _account_record((await tx.execute(statement)).mappings().one())


async def update_account(
    tx: Transaction, account_id: AccountId, *, name: str, is_suspended: bool
) -> AccountRecord:
    """Set an account's name, and whether it is suspended, with the time of its first suspension."""
    suspended_at = func.coalesce(accounts.c.suspended_at, func.now()) if is_suspended else null()
    changed = await tx.execute(
        update(accounts)
        .where(accounts.c.id == account_id)
        .values(name=name, suspended_at=suspended_at)
        .returning(*_ACCOUNT)
    )
    return _account_record(changed.mappings().one())


async def update_retention(tx: Transaction, account_id: AccountId, retention: Retention) -> None:
    """Set for how long an account's contents are kept."""
    values = {"retention": retention.days or null()}
    await tx.execute(update(accounts).where(accounts.c.id == account_id).values(values))


async def find_account(reader: Reader, name: str) -> AccountRecord | None:
    row = (await reader.execute(_ACCOUNTS.where(accounts.c.name == name))).mappings().one_or_none()
    return None if row is None else _account_record(row)


async def find_accounts(reader: Reader, page: PageRequest) -> list[AccountRecord]:
    """A page of accounts, newest first."""
    statement = page_of(_ACCOUNTS, page, at=accounts.c.created_at, id_=accounts.c.id)
    return [_account_record(row) for row in (await reader.execute(statement)).mappings()]


async def find_provider_profiles(reader: Reader) -> dict[str, AccountId]:
    statement = select(accounts.c.provider_profile_id, accounts.c.id).where(
        accounts.c.provider_profile_id.is_not(None)
    )
    found = (await reader.execute(statement)).mappings()
    return {row["provider_profile_id"]: AccountId(row["id"]) for row in found}


async def set_provider_profile(tx: Transaction, account_id: AccountId, profile_id: str | None) -> bool:
    """Set an account's user profile; False if another account has it."""
    holder = select(accounts.c.id).where(accounts.c.provider_profile_id == profile_id)
    taken = await tx.execute(holder.where(accounts.c.id != account_id))
    if profile_id is not None and taken.first() is not None:
        return False
    await tx.execute(
        update(accounts).where(accounts.c.id == account_id).values(provider_profile_id=profile_id)
    )
    return True


async def find_names(reader: Reader, account_ids: Collection[AccountId]) -> dict[AccountId, str]:
    statement = select(accounts.c.id, accounts.c.name).where(accounts.c.id.in_(account_ids))
    found = (await reader.execute(statement)).mappings()
    return {AccountId(row["id"]): row["name"] for row in found}


async def insert_key(tx: Transaction, new: NewKey) -> tuple[KeyRecord, bool]:
    """The key with this hash, and whether it was inserted: there may have been one."""
    inserted = await tx.execute(
        postgresql.insert(api_keys)
        .values(
            **_term_values(new.terms),
            id=new.id,
            account_id=new.account_id,
            name=new.name,
            prefix=key_prefix(new.secret),
            hash=hash_key(new.secret),
            scopes=list(new.scopes),
            counts_for=new.counts_for,
            created_at=func.now(),
        )
        .on_conflict_do_nothing(index_elements=["hash"])
        .returning(api_keys.c.id),
    )
    found = await _KEY_BY_HASH.fetch(tx, {"key_hash": hash_key(new.secret)})
    return _key_record(found[0]), inserted.first() is not None


async def find_key_by_hash(reader: Reader, key_hash: bytes) -> KeyRecord | None:
    """The key with this hash, revoked or not."""
    return next(map(_key_record, await _KEY_BY_HASH.fetch(reader, {"key_hash": key_hash})), None)


async def find_key(reader: Reader, key_id: ApiKeyId) -> KeyRecord | None:
    """The key with this id, revoked or not."""
    row = (await reader.execute(_KEYS.where(api_keys.c.id == key_id))).mappings().one_or_none()
    return None if row is None else _key_record(row)


async def find_all_keys(reader: Reader) -> list[KeyRecord]:
    """Every key of every account, oldest first."""
    found = await reader.execute(_KEYS.order_by(api_keys.c.created_at))
    return [_key_record(row) for row in found.mappings()]


async def find_account_keys(reader: Reader, account_id: AccountId, page: PageRequest) -> list[KeyRecord]:
    """A page of an account's keys, revoked or not, newest first."""
    keys = _KEYS.where(api_keys.c.account_id == account_id)
    statement = page_of(keys, page, at=api_keys.c.created_at, id_=api_keys.c.id)
    return [_key_record(row) for row in (await reader.execute(statement)).mappings()]


async def find_key_names(reader: Reader, account_id: AccountId) -> dict[ApiKeyId, str]:
    """The names of an account's keys, revoked or not; of a key without one, how it begins."""
    name = func.coalesce(api_keys.c.name, api_keys.c.prefix).label("name")
    statement = select(api_keys.c.id, name).where(api_keys.c.account_id == account_id)
    return {ApiKeyId(row["id"]): row["name"] for row in (await reader.execute(statement)).mappings()}


async def lock_key(tx: Transaction, key_id: ApiKeyId) -> KeyRecord | None:
    """The key, which no other transaction can change before this one ends; None if there is none.

    It can be referred to meanwhile: by receipts, for example.
    """
    statement = _KEYS.where(api_keys.c.id == key_id).with_for_update(of=api_keys, key_share=True)
    row = (await tx.execute(statement)).mappings().one_or_none()
    return None if row is None else _key_record(row)


async def lock_keys(tx: Transaction, key_ids: Collection[ApiKeyId]) -> None:
    """The same for several, in one order: each may be locked by what has locked another one."""
    keys = select(api_keys.c.id).where(api_keys.c.id.in_(key_ids)).order_by(api_keys.c.id)
    await tx.execute(keys.with_for_update(key_share=True))


async def revoke(tx: Transaction, key_id: ApiKeyId) -> None:
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=func.now()))


async def end_after(tx: Transaction, key_id: ApiKeyId, delay: timedelta) -> None:
    """Let a key expire after a delay, unless it does so before."""
    # PostgreSQL ignores null in `least`.
    expires_at = func.least(api_keys.c.expires_at, func.now() + delay)
    await tx.execute(update(api_keys).where(api_keys.c.id == key_id).values(expires_at=expires_at))


async def erase_end_user(tx: Transaction, account_id: AccountId, end_user: str) -> None:
    """Label no runs with an end user any more; keys and sessions that are fixed to it end."""
    labels = api_keys.c.labels
    is_named = (api_keys.c.account_id == account_id, labels["endUser"].astext == end_user)
    ended = case(
        (labels["fixed"].as_boolean(), func.coalesce(api_keys.c.revoked_at, func.now())),
        else_=api_keys.c.revoked_at,
    )
    others = labels.op("-", return_type=labels.type)(literal("endUser", Text))
    await tx.execute(update(api_keys).where(*is_named).values(labels=others, revoked_at=ended))
    of_account = select(api_keys.c.id).where(api_keys.c.account_id == account_id)
    is_theirs = browser_sessions.c.person["end_user"].astext == end_user
    await tx.execute(delete(browser_sessions).where(is_theirs, browser_sessions.c.api_key_id.in_(of_account)))


async def find_active_keys(reader: Reader, key_ids: Collection[ApiKeyId]) -> set[ApiKeyId]:
    """The subset of these keys that has not ended, also if their account is suspended."""
    statement = select(api_keys.c.id).where(api_keys.c.id.in_(key_ids), ~IS_ENDED)
    return {ApiKeyId(key) for key in (await reader.execute(statement)).scalars()}


async def lock_active_key(tx: Transaction, key_id: ApiKeyId) -> LockedKey | None:
    """The state of a key, which cannot change until the transaction ends; None if there is no such key."""
    row = (await tx.execute(_LOCK_KEY, {"key_id": key_id})).mappings().one_or_none()
    return None if row is None else LockedKey(**row)


async def record_key_use(tx: Transaction, key_id: ApiKeyId, *, if_older_than: timedelta) -> None:
    """Set the time the key was last used, unless it is newer than `if_older_than`."""
    await tx.execute(
        update(api_keys)
        .where(
            api_keys.c.id == key_id,
            or_(
                api_keys.c.last_used_at.is_(None),
                api_keys.c.last_used_at < func.now() - if_older_than,
            ),
        )
        .values(last_used_at=func.now()),
    )


_ACCOUNT = [accounts.c[field.name] for field in fields(AccountRecord)]
_ACCOUNTS = select(*_ACCOUNT)

_KEYS = select(
    api_keys.c.id,
    api_keys.c.account_id,
    accounts.c.name.label("account"),
    api_keys.c.name,
    api_keys.c.prefix,
    api_keys.c.scopes,
    *TERMS,
    api_keys.c.created_at,
    api_keys.c.last_used_at,
    api_keys.c.revoked_at,
    *_STATE,
).join(accounts, accounts.c.id == api_keys.c.account_id)

_KEY_BY_HASH = Prepared(_KEYS.where(api_keys.c.hash == bindparam("key_hash")))
_LOCK_KEY = (
    select(*_STATE)
    .join_from(api_keys, accounts, accounts.c.id == api_keys.c.account_id)
    .where(api_keys.c.id == bindparam("key_id"))
    # Of both rows: also the account cannot be suspended meanwhile.
    .with_for_update(read=True)
)


def _terms_of(row: Row) -> KeyTerms:
    graphs = row["graphs"]
    models = row["models"]
    return KeyTerms(
        expires_at=row["key_expires_at"],
        graphs=None if graphs is None else tuple(graphs),
        models=None if models is None else tuple(models),
        limits=tuple(
            KeyLimit(**{**limit, "of": ApiKeyId(UUID(limit["of"]))}) for limit in row["limits"] or ()
        ),
        labels=None if row["labels"] is None else KeyLabels.model_validate(row["labels"]),
    )


def _term_values(terms: KeyTerms) -> dict[str, Any]:
    limits = [{**asdict(limit), "of": str(limit.of)} for limit in terms.limits]
    for limit in limits:
        if limit["tokens_per_minute"] is None:
            # The release before knows no such limit, and the other keys.
            del limit["tokens_per_minute"]
    return {
        "expires_at": terms.expires_at,
        "graphs": None if terms.graphs is None else list(terms.graphs),
        "models": None if terms.models is None else list(terms.models),
        "limits": limits or null(),
        "labels": null() if terms.labels is None else terms.labels.model_dump(by_alias=True),
    }


def key_fields(row: Row) -> dict[str, Any]:
    """The fields of a record from a row with scopes and `TERMS`."""
    of_terms = {column.name for column in TERMS}
    plain = {name: row[name] for name in row if name not in of_terms}
    return {**plain, "scopes": tuple(row["scopes"]), "terms": _terms_of(row)}


def _account_record(row: RowMapping) -> AccountRecord:
    return AccountRecord(**{**row, "retention": Retention.of(row["retention"])})


def _key_record(row: Row) -> KeyRecord:
    return KeyRecord(**key_fields(row))
