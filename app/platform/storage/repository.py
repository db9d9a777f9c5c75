"""SQL for the storage used by accounts, and for what is past the time for which it is kept."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.selectable import CompoundSelect

from app.ids import AccountId
from app.platform.db import Transaction
from app.platform.storage.records import KEPT_FOR_EVER, Retention, RetentionKind
from app.platform.storage.tables import storage_changes

_accounts = sa.table("accounts", sa.column("id"), sa.column("retention", JSONB))

_MANY = 100
"""As in the function `stored_bytes`, which replaces more changes of an owner by their sum."""

_owners = sa.select(storage_changes.c.owner).group_by(storage_changes.c.owner)
_COMPACT = sa.select(sa.func.stored_bytes(_owners.having(sa.func.count() > _MANY).subquery().c.owner))


async def stored_bytes(tx: Transaction, account_id: AccountId) -> int:
    """The sum of all changes, which replaces them where there are many."""
    return int(await tx.scalar(sa.select(sa.func.stored_bytes(str(account_id)))) or 0)


async def compact_changes(tx: Transaction) -> None:
    """Replace the many changes of owners by their sums; concurrent calls are safe."""
    await tx.execute(_COMPACT)


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
