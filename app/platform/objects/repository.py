"""SQL for contents outside the database."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Text, and_, any_, case, delete, func, literal, select, text, update
from sqlalchemy.dialects import postgresql

from app.ids import AccountId
from app.platform.db import Reader, Transaction
from app.platform.objects.records import StoredObject
from app.platform.objects.tables import stored_objects
from app.platform.postgres.statements import is_one_of

_objects = stored_objects.c


async def announce(
    tx: Transaction, account_id: AccountId, sizes: Mapping[str, int], *, keep: timedelta
) -> None:
    """Keep these contents, which are about to be written, for so long, whatever refers to them."""
    insert_ = postgresql.insert(stored_objects)
    row = {"account_id": account_id, "check_at": func.now() + keep}
    rows = [{**row, "sha256": sha256, "bytes": size} for sha256, size in sorted(sizes.items())]
    later = func.greatest(_objects.check_at, insert_.excluded.check_at)
    key = ["account_id", "sha256"]
    await tx.execute(insert_.values(rows).on_conflict_do_update(index_elements=key, set_={"check_at": later}))


async def find_used(reader: Reader, account_id: AccountId, hashes: Collection[str]) -> set[str]:
    """Those of these contents that something refers to."""
    named = func.used_objects(account_id, literal(sorted(hashes), postgresql.ARRAY(Text)))
    return set((await reader.execute(select(named.column_valued("sha256")))).scalars())


async def lock_objects(tx: Transaction, account_id: AccountId, hashes: Collection[str]) -> set[str]:
    """Those of these contents that are not deleted; none is before the transaction ends."""
    is_named = and_(_objects.account_id == account_id, is_one_of(_objects.sha256, hashes))
    statement = select(_objects.sha256).where(is_named).order_by(_objects.sha256)
    return set((await tx.execute(statement.with_for_update(key_share=True, read=True))).scalars())


async def find_some(reader: Reader, *, most: int) -> Sequence[StoredObject]:
    """Some contents that something refers to."""
    used = select(_objects.account_id, _objects.sha256).where(_objects.check_at.is_(None)).limit(most)
    return [StoredObject(AccountId(row.account_id), row.sha256) for row in await reader.execute(used)]


async def take_released(tx: Transaction, *, most: int) -> None:
    """Let some contents that something has let go of be looked at in a minute: they may be being read."""
    await tx.execute(_TAKE_RELEASED, {"most": most})


async def lock_due(tx: Transaction, *, most: int) -> Sequence[StoredObject]:
    """Some contents that may be unused; nothing new refers to them before the transaction ends."""
    due = (
        select(_objects.account_id, _objects.sha256)
        .where(_objects.check_at <= func.now())
        .order_by(_objects.check_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    return [StoredObject(AccountId(row.account_id), row.sha256) for row in await tx.execute(due)]


async def keep_object(tx: Transaction, key: StoredObject, *, at_least: timedelta | None = None) -> None:
    """Keep a content for so long; None: until what refers to it says that it does not any more."""
    check_at = None if at_least is None else func.now() + at_least
    await tx.execute(update(stored_objects).where(_is(key)).values(check_at=check_at))


async def delete_object(tx: Transaction, key: StoredObject) -> None:
    await tx.execute(delete(stored_objects).where(_is(key)))


def with_objects(
    size: ColumnElement[int], account_id: ColumnElement[Any], objects: ColumnElement[Any]
) -> ColumnElement[int]:
    """The size of a row, and of its strings that are stored outside: all that reading it takes."""
    outside = (
        select(func.coalesce(func.sum(_objects.bytes), 0))
        .where(_objects.account_id == account_id, _objects.sha256 == any_(objects))
        .correlate_except(stored_objects)
        .scalar_subquery()
    )
    return case((objects.is_(None), size), else_=size + outside)


_TAKE_RELEASED = text(
    """
    WITH released AS (
        DELETE FROM released_objects
         WHERE id IN (SELECT id FROM released_objects ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED)
        RETURNING account_id, sha256
    ), known AS (
        SELECT account_id, sha256 FROM stored_objects
         WHERE (account_id, sha256) IN (SELECT account_id, sha256 FROM released)
         ORDER BY account_id, sha256 FOR NO KEY UPDATE
    )
    UPDATE stored_objects AS object SET check_at = coalesce(check_at, now() + interval '1 minute')
      FROM known WHERE object.account_id = known.account_id AND object.sha256 = known.sha256
    """
)


def _is(key: StoredObject) -> ColumnElement[bool]:
    return and_(_objects.account_id == key.account_id, _objects.sha256 == key.sha256)
