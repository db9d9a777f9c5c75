"""SQL for the storage used by accounts, and for what is past the time for which it is kept."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.selectable import CompoundSelect

from app.ids import AccountId
from app.platform.db import Reader, Transaction
from app.platform.storage.records import KEPT_FOR_EVER, Retention, RetentionKind
from app.platform.storage.tables import storage_changes

_changes = storage_changes.c
_accounts = sa.table("accounts", sa.column("id"), sa.column("retention", JSONB))
_FEW = 20
"""Up to so many changes of one owner are summed as quickly as one."""

_STORED_BYTES = sa.select(sa.func.coalesce(sa.func.sum(_changes.bytes), 0)).where(
    _changes.owner == sa.bindparam("owner")
)


async def stored_bytes(reader: Reader, account_id: AccountId) -> int:
    return int((await reader.execute(_STORED_BYTES, {"owner": str(account_id)})).scalar_one())


async def compact_changes(tx: Transaction, *, most: int) -> None:
    """Replace the many changes of an owner by their sum; concurrent calls are safe."""
    many = sa.select(_changes.owner).group_by(_changes.owner).having(sa.func.count() > _FEW)
    chosen = (
        sa.select(_changes.id).where(_changes.owner.in_(many)).limit(most).with_for_update(skip_locked=True)
    )
    taken = (
        sa.delete(storage_changes)
        .where(_changes.id.in_(chosen))
        .returning(_changes.owner, _changes.bytes)
        .cte("taken")
    )
    sums = sa.select(taken.c.owner, sa.func.sum(taken.c.bytes)).group_by(taken.c.owner)
    await tx.execute(sa.insert(storage_changes).from_select(["owner", "bytes"], sums))


def overdue(
    rows: sa.Select[Any],
    account_id: sa.ColumnElement[Any],
    kind: RetentionKind,
    *,
    since: Sequence[sa.ColumnElement[Any]],
    until: datetime,
    by_default: Retention = KEPT_FOR_EVER,
    most: int,
) -> CompoundSelect[Any]:
    """The oldest of `rows` that are past their time: `most` by default, and as many of certain accounts.

    All times of `since` must be so long ago; the first decides which are the oldest. `until` is the time of
    the server's clock: the database's may have jumped forward, and what is deleted does not come back.
    """
    oldest = rows.order_by(since[0]).limit(most)
    default, own = by_default.days.get(kind), _accounts.c.retention[kind].as_integer()
    now = earlier_now(until)
    of_all = oldest.where(sa.false() if default is None else _before(since, now - timedelta(days=default)))
    before_own = _before(since, now - sa.func.make_interval(0, 0, 0, own))
    of_one = oldest.where(account_id == _accounts.c.id, before_own)
    each = of_one.lateral("of_one")
    of_some = sa.select(each).select_from(_accounts).join(each, sa.true()).where(own.is_not(None)).limit(most)
    return sa.union(sa.select(of_all.cte("of_all")), sa.select(of_some.cte("of_some")))


def earlier_now(until: datetime) -> sa.ColumnElement[datetime]:
    """The database's time, or this one if it is earlier: when it is time to delete something."""
    return sa.func.least(sa.func.now(), until)


def _before(since: Sequence[sa.ColumnElement[Any]], moment: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    return sa.and_(*(each < moment for each in since))
