"""SQL for searching receipts and finding those without a price."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from app.billing.receipts.records import Receipt, ReceiptFilter, UnpricedReceipts
from app.billing.receipts.repository import adjustment_exists, receipt_of
from app.billing.receipts.tables import MISS_CAUSE, charge_receipts
from app.billing.reports.tables import usage_rollups
from app.billing.reports.usage_repository import BUCKET, bucket_of
from app.ids import AccountId
from app.platform.db import Reader, page_of
from app.platform.pagination import PageRequest
from app.platform.postgres.labels import labels_match

_receipts = charge_receipts.c
_rollups = usage_rollups.c

_TICK = timedelta(microseconds=1)
"""The resolution of PostgreSQL's clock."""
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


async def find_receipts(
    reader: Reader, account_id: AccountId, filters: ReceiptFilter, page: PageRequest
) -> list[Receipt]:
    if page.before is not None:
        # As a time window too, so the rollups are only searched that far.
        window_end = _next_microsecond(page.before[0])
        filters = replace(filters, used_to=_earliest(filters.used_to, window_end))
    matching = sa.select(charge_receipts).where(
        _receipts.account_id == account_id, *_conditions(filters), *_rollup_window(account_id, filters)
    )
    statement = page_of(matching, page, at=_receipts.used_at, id_=_receipts.id)
    return [receipt_of(row) for row in (await reader.execute(statement)).mappings()]


async def find_unpriced(
    reader: Reader,
    account_id: AccountId,
    *,
    since: datetime | None,
    until: datetime | None,
    adjusted_by: str,
    limit: int,
) -> UnpricedReceipts:
    """An account's receipts without a price that are not adjusted yet, and the newest of them."""
    unpriced = (
        _receipts.account_id == account_id,
        *_conditions(ReceiptFilter(basis="unpriced", used_from=since, used_to=until)),
        ~adjustment_exists(adjusted_by),
    )
    counted = sa.select(
        sa.func.count().label("receipts"), sa.func.count(_receipts.run_id.distinct()).label("runs")
    ).where(*unpriced)
    counts = (await reader.execute(counted)).one()
    newest = (
        sa.select(charge_receipts)
        .where(*unpriced)
        .order_by(_receipts.used_at.desc(), _receipts.id.desc())
        .limit(limit)
    )
    found = (await reader.execute(newest)).mappings()
    return UnpricedReceipts(counts.receipts, counts.runs, [receipt_of(row) for row in found])


async def newest_unpriced(
    reader: Reader, account_id: AccountId, *, since: datetime, adjusted_by: str, limit: int
) -> list[Receipt]:
    """The newest receipts of messages since this moment that wait for a price."""
    parameters = {"account_id": account_id, "since": since, "adjusted_by": adjusted_by, "limit": limit}
    return [receipt_of(row) for row in (await reader.execute(_NEWEST_UNPRICED, parameters)).mappings()]


def _next_microsecond(moment: datetime) -> datetime:
    # A cursor may name the last moment of the calendar.
    return min(moment, _LAST_MOMENT - _TICK) + _TICK


def _earliest(moment: datetime | None, other: datetime) -> datetime:
    return other if moment is None else min(moment, other)


def _conditions(filters: ReceiptFilter) -> list[sa.ColumnElement[bool]]:
    columns_and_values = (
        (_receipts.run_id, filters.run_id),
        (_receipts.graph_id, filters.graph_id),
        (_receipts.model, filters.model),
        (_receipts.api_key_id, filters.api_key_id),
        (_receipts.basis, _literal_parameter(filters.basis)),
        (_receipts.origin, _literal_parameter(filters.origin)),
        (MISS_CAUSE, filters.miss_cause),
    )
    conditions = [column == value for column, value in columns_and_values if value is not None]
    conditions += labels_match(_receipts, filters.labels)
    if filters.used_from is not None:
        conditions.append(_receipts.used_at >= filters.used_from)
    if filters.used_to is not None:
        conditions.append(_receipts.used_at < filters.used_to)
    return conditions


def _literal_parameter(value: str | None) -> sa.BindParameter[str] | None:
    """A value the planner can see: it uses no partial index for a statement with a parameter."""
    return None if value is None else sa.bindparam(None, value, literal_execute=True)


def _rollup_window(account_id: AccountId, filters: ReceiptFilter) -> list[sa.ColumnElement[bool]]:
    """Limits the search to the time in which rollups match: a rare value must not read every receipt."""
    columns_and_values = (
        (_rollups.graph_id, filters.graph_id),
        (_rollups.model, filters.model),
        (_rollups.api_key_id, filters.api_key_id),
    )
    matching = [column == value for column, value in columns_and_values if value is not None]
    if not matching:
        return []
    if filters.used_from is not None:
        matching.append(_rollups.bucket >= bucket_of(filters.used_from))
    if filters.used_to is not None:
        matching.append(_rollups.bucket < filters.used_to)
    found: sa.Select[Any] = (
        sa.select(_rollups.bucket).where(_rollups.account_id == account_id, *matching).limit(1)
    )
    first: sa.ScalarSelect[datetime] = found.order_by(_rollups.bucket).scalar_subquery()
    last: sa.ScalarSelect[datetime] = found.order_by(_rollups.bucket.desc()).scalar_subquery()
    return [_receipts.used_at >= first, _receipts.used_at < last + BUCKET]


_NEWEST_UNPRICED = (
    sa.select(charge_receipts)
    .where(
        _receipts.account_id == sa.bindparam("account_id"),
        _receipts.basis == _literal_parameter("unpriced"),
        _receipts.used_at >= sa.bindparam("since"),
        ~adjustment_exists(sa.bindparam("adjusted_by")),
    )
    .order_by(_receipts.used_at.desc(), _receipts.id.desc())
    .limit(sa.bindparam("limit"))
)
"""Built once: it is executed before each call of an account with limits."""
