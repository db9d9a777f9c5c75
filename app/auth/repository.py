"""SQL for accounts and API keys."""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import bindparam, func, or_, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import RowMapping

from app.auth.records import AccountRecord, KeyRecord
from app.auth.tables import accounts, api_keys
from app.ids import AccountId, ApiKeyId, new_uuid
from app.platform.db import Reader, Transaction, page_of
from app.platform.pagination import PageRequest


async def get_or_create_account(tx: Transaction, name: str) -> AccountId:
    """The account with this name, created if there is none."""
    await tx.execute(
        postgresql.insert(accounts)
        .values(id=new_uuid(), name=name, created_at=func.now())
        .on_conflict_do_nothing(index_elements=["name"]),
    )
    found = await tx.execute(select(accounts.c.id).where(accounts.c.name == name))
    return AccountId(found.scalar_one())


async def find_account(reader: Reader, name: str) -> AccountRecord | None:
    """The account with this name."""
    row = (await reader.execute(_ACCOUNTS.where(accounts.c.name == name))).mappings().one_or_none()
    return None if row is None else AccountRecord(**row)


async def find_accounts(reader: Reader, page: PageRequest) -> list[AccountRecord]:
    """A page of accounts, newest first."""
    statement = page_of(_ACCOUNTS, page, at=accounts.c.created_at, id_=accounts.c.id)
    return [AccountRecord(**row) for row in (await reader.execute(statement)).mappings()]


async def find_provider_profiles(reader: Reader) -> dict[str, AccountId]:
    """The ids of accounts by their user profile at the provider."""
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
    """The names of these accounts."""
    statement = select(accounts.c.id, accounts.c.name).where(accounts.c.id.in_(account_ids))
    found = (await reader.execute(statement)).mappings()
    return {AccountId(row["id"]): row["name"] for row in found}


async def insert_key(
    tx: Transaction,
    account_id: AccountId,
    *,
    key_hash: bytes,
    prefix: str,
    scopes: tuple[str, ...],
    name: str | None,
) -> bool:
    """Insert a key; False if there is one with this hash."""
    inserted = await tx.execute(
        postgresql.insert(api_keys)
        .values(
            id=new_uuid(),
            account_id=account_id,
            name=name,
            prefix=prefix,
            hash=key_hash,
            scopes=list(scopes),
            created_at=func.now(),
        )
        .on_conflict_do_nothing(index_elements=["hash"])
        .returning(api_keys.c.id),
    )
    return inserted.first() is not None


async def find_key_by_hash(reader: Reader, key_hash: bytes) -> KeyRecord | None:
    """The key with this hash, revoked or not."""
    row = (await reader.execute(_KEY_BY_HASH, {"key_hash": key_hash})).mappings().one_or_none()
    return None if row is None else _key_record(row)


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


async def revoke(tx: Transaction, key_id: ApiKeyId) -> bool:
    """Revoke a key, keeping the time of its first revocation; False if there is no such key."""
    changed = await tx.execute(
        update(api_keys)
        .where(api_keys.c.id == key_id)
        .values(revoked_at=func.coalesce(api_keys.c.revoked_at, func.now())),
    )
    return bool(changed.rowcount)


async def lock_active_key(tx: Transaction, key_id: ApiKeyId) -> bool:
    """Whether the key is active; it cannot be revoked until the transaction ends."""
    row = (await tx.execute(_LOCK_KEY, {"key_id": key_id})).one_or_none()
    return row is not None and row.revoked_at is None


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


_ACCOUNTS = select(accounts.c.id, accounts.c.name, accounts.c.created_at)

_KEYS = select(
    api_keys.c.id,
    api_keys.c.account_id,
    accounts.c.name.label("account"),
    api_keys.c.name,
    api_keys.c.prefix,
    api_keys.c.scopes,
    api_keys.c.created_at,
    api_keys.c.last_used_at,
    api_keys.c.revoked_at,
).join(accounts, accounts.c.id == api_keys.c.account_id)

_KEY_BY_HASH = _KEYS.where(api_keys.c.hash == bindparam("key_hash"))
_LOCK_KEY = (
    select(api_keys.c.revoked_at).where(api_keys.c.id == bindparam("key_id")).with_for_update(read=True)
)


def _key_record(row: RowMapping) -> KeyRecord:
    return KeyRecord(**{**row, "scopes": tuple(row["scopes"])})
