"""SQL for what is past the time for which it is kept."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, column, false, func, select, table, true, union
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.selectable import CompoundSelect

from app.platform.storage.records import KEPT_FOR_EVER, Retention, RetentionKind

_accounts = table("accounts", column("id"), column("retention", JSONB))


def overdue(
    rows: Select[Any],
    account_id: ColumnElement[Any],
    kind: RetentionKind,
    *,
    since: Sequence[ColumnElement[Any]],
    by_default: Retention = KEPT_FOR_EVER,
    most: int,
) -> CompoundSelect[Any]:
    """The oldest of `rows` that are past their time: `most` by default, and as many of certain accounts.

    All times of `since` must be so long ago; the first decides which are the oldest.
    """
    oldest = rows.order_by(since[0]).limit(most)
    default, own = by_default.days.get(kind), _accounts.c.retention[kind].as_integer()
    of_all = oldest.where(false() if default is None else _before(since, timedelta(days=default)))
    of_one = oldest.where(account_id == _accounts.c.id, _before(since, func.make_interval(0, 0, 0, own)))
    each = of_one.lateral("of_one")
    of_some = select(each).select_from(_accounts).join(each, true()).where(own.is_not(None)).limit(most)
    return union(select(of_all.cte("of_all")), select(of_some.cte("of_some")))


def _before(since: Sequence[ColumnElement[Any]], age: Any) -> ColumnElement[bool]:
    return and_(*(each < func.now() - age for each in since))
