"""SQL for grants."""

from dataclasses import fields
from uuid import UUID

from sqlalchemy import delete, exists, func, select
from sqlalchemy.dialects import postgresql

from app.conversations.grants.records import GrantKey, PermissionGrant
from app.conversations.tables import permission_grants
from app.ids import AccountId, ApiKeyId, new_uuid
from app.platform.db import Reader, Transaction

_grants = permission_grants.c
_COLUMNS = tuple(_grants[field.name] for field in fields(PermissionGrant))


async def has_grant(reader: Reader, key: GrantKey) -> bool:
    found = select(exists().where(*(_grants[name] == value for name, value in key._asdict().items())))
    return bool((await reader.execute(found)).scalar_one())


async def insert_grant(tx: Transaction, key: GrantKey, *, by: ApiKeyId) -> None:
    values = {**key._asdict(), "id": new_uuid(), "api_key_id": by, "created_at": func.now()}
    await tx.execute(postgresql.insert(permission_grants).values(values).on_conflict_do_nothing())


async def find_grants(reader: Reader, account_id: AccountId, state_key: str) -> list[PermissionGrant]:
    statement = (
        select(*_COLUMNS)
        .where(_grants.account_id == account_id, _grants.state_key == state_key)
        .order_by(_grants.created_at.desc(), _grants.id.desc())
    )
    return [PermissionGrant(**row) for row in (await reader.execute(statement)).mappings()]


async def delete_grant(tx: Transaction, account_id: AccountId, state_key: str, grant_id: UUID) -> bool:
    """Delete a grant of a conversation; False if it has none with this id."""
    statement = delete(permission_grants).where(
        _grants.account_id == account_id, _grants.state_key == state_key, _grants.id == grant_id
    )
    return bool((await tx.execute(statement)).rowcount)
