"""SQL for the storage used by accounts."""

from sqlalchemy import bindparam, delete, func, insert, select

from app.ids import AccountId
from app.platform.db import Reader, Transaction
from app.platform.storage.tables import storage_changes

_changes = storage_changes.c
_FEW = 20
"""Up to so many changes of one owner are summed as quickly as one."""

_STORED_BYTES = select(func.coalesce(func.sum(_changes.bytes), 0)).where(_changes.owner == bindparam("owner"))


async def stored_bytes(reader: Reader, account_id: AccountId) -> int:
    """How many bytes an account stores."""
    return int((await reader.execute(_STORED_BYTES, {"owner": str(account_id)})).scalar_one())


async def compact_changes(tx: Transaction, *, most: int) -> None:
    """Replace the many changes of an owner by their sum; concurrent calls are safe."""
    many = select(_changes.owner).group_by(_changes.owner).having(func.count() > _FEW)
    chosen = select(_changes.id).where(_changes.owner.in_(many)).limit(most).with_for_update(skip_locked=True)
    taken = (
        delete(storage_changes)
        .where(_changes.id.in_(chosen))
        .returning(_changes.owner, _changes.bytes)
        .cte("taken")
    )
    sums = select(taken.c.owner, func.sum(taken.c.bytes)).group_by(taken.c.owner)
    await tx.execute(insert(storage_changes).from_select(["owner", "bytes"], sums))
