"""SQL for usage reports: sums of rollups, and of receipts where a bucket is only partly in the window."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

from sqlalchemy import (
    ColumnElement,
    Date,
    FromClause,
    Select,
    String,
    Subquery,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    union_all,
)
from sqlalchemy.engine import RowMapping

from app.billing.receipts.tables import charge_receipts
from app.billing.reports.records import GroupBy, UsageBreakdown, UsageFilter, UsageSums
from app.billing.reports.tables import usage_rollups
from app.ids import AccountId
from app.platform.db import Reader

BUCKET = timedelta(minutes=15)
"""Must match the trigger that keeps the rollups. Days of every time zone begin with a bucket."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME = datetime.max.replace(tzinfo=UTC)

_SUMMED = tuple(field.name for field in fields(UsageSums))
_SUM_TYPES = get_type_hints(UsageSums)
"""PostgreSQL sums bigints into numerics."""
_SUMMED_COLUMNS = tuple(name for name in _SUMMED if name not in ("receipts", "web_fetch_requests"))
_receipts = charge_receipts.c
_rollups = usage_rollups.c


async def grouped_usage(
    reader: Reader,
    account_id: AccountId,
    group_by: GroupBy | None,
    *,
    filters: UsageFilter,
    time_zone: str,
) -> list[UsageBreakdown]:
    """Sums by group, in the order of the groups; one group named "" without `group_by`."""
    usage = _matching_rows(account_id, filters)
    group = _group(usage.c, group_by, time_zone)
    statement = select(group.label("group"), *_summed(usage)).group_by(group).order_by(group)
    found = (await reader.execute(statement)).mappings()
    return [UsageBreakdown(row["group"], _sums(row)) for row in found]


async def split_usage(
    reader: Reader,
    account_id: AccountId,
    group_by: GroupBy,
    *,
    split_by: GroupBy,
    top: int,
    filters: UsageFilter,
    time_zone: str,
) -> list[UsageBreakdown]:
    """Sums by group and part; parts that are not among the `top` most charged are summed with part None."""
    usage = _matching_rows(account_id, filters)
    group, split = _group(usage.c, group_by, time_zone), _group(usage.c, split_by, time_zone)
    pairs = (
        select(group.label("group"), split.label("split"), *_summed(usage))
        .group_by(group, split)
        .cte("pairs")
    )
    leaders = (
        select(pairs.c.split)
        .group_by(pairs.c.split)
        .order_by(func.sum(pairs.c.charged_credits).desc(), pairs.c.split)
        .limit(top)
        .subquery("leaders")
    )
    statement = (
        select(pairs.c.group, leaders.c.split, *_summed(pairs))
        .select_from(pairs.outerjoin(leaders, leaders.c.split == pairs.c.split))
        .group_by(pairs.c.group, leaders.c.split)
        .order_by(pairs.c.group, leaders.c.split.nulls_last())
    )
    found = (await reader.execute(statement)).mappings()
    return [UsageBreakdown(row["group"], _sums(row), row["split"]) for row in found]


def _matching_rows(account_id: AccountId, filters: UsageFilter) -> Subquery:
    return union_all(_whole_buckets(account_id, filters), *_partial_buckets(account_id, filters)).subquery()


def _summed(usage: FromClause) -> list[ColumnElement[Any]]:
    return [func.sum(usage.c[name]).label(name) for name in _SUMMED]


def _whole_buckets(account_id: AccountId, filters: UsageFilter) -> Select[Any]:
    statement = select(
        _rollups.bucket.label("moment"),
        _rollups.model,
        _rollups.graph_id,
        _rollups.api_key_id,
        *(_rollups[name] for name in _SUMMED),
    ).where(_rollups.account_id == account_id, *_conditions(_rollups, filters))
    if filters.since is not None:
        statement = statement.where(_rollups.bucket >= _bucket_after(filters.since))
    if filters.until is not None:
        statement = statement.where(_rollups.bucket < bucket_of(filters.until))
    return statement


def _partial_buckets(account_id: AccountId, filters: UsageFilter) -> list[Select[Any]]:
    """The receipts of buckets that are only partly in the window."""
    moment, since, until = _receipts.used_at, filters.since, filters.until
    bounds, partial_ranges = [], []
    if since is not None:
        bounds.append(moment >= since)
        partial_ranges.append(and_(moment >= since, moment < _bucket_after(since)))
    if until is not None:
        bounds.append(moment < until)
        partial_ranges.append(and_(moment >= bucket_of(until), moment < until))
    if not partial_ranges:
        return []
    receipts = case((_receipts.basis == "adjustment", 0), else_=1)
    return [
        select(
            moment.label("moment"),
            _receipts.model,
            _receipts.graph_id,
            _receipts.api_key_id,
            receipts.label("receipts"),
            *(_receipts[name] for name in _SUMMED_COLUMNS),
            func.web_fetches_of(_receipts.basis, _receipts.provider_usage).label("web_fetch_requests"),
        ).where(
            _receipts.account_id == account_id,
            *_conditions(_receipts, filters),
            or_(*partial_ranges),
            *bounds,
        )
    ]


def _conditions(columns: Any, filters: UsageFilter) -> list[ColumnElement[bool]]:
    columns_and_values = (
        (columns.model, filters.model),
        (columns.graph_id, filters.graph_id),
        (columns.api_key_id, filters.api_key_id),
    )
    return [column == value for column, value in columns_and_values if value is not None]


def _group(columns: Any, group_by: GroupBy | None, time_zone: str) -> ColumnElement[str]:
    match group_by:
        case "day":
            return cast(cast(func.timezone(time_zone, columns.moment), Date), String)
        case "model":
            return cast(columns.model, String)
        case "graph":
            return cast(columns.graph_id, String)
        case "key":
            return cast(columns.api_key_id, String)
        case None:
            return cast(literal(""), String)


def bucket_of(moment: datetime) -> datetime:
    """The start of the bucket that contains a moment."""
    return moment - (moment - _EPOCH) % BUCKET


def _bucket_after(moment: datetime) -> datetime:
    """The first bucket that begins at or after a moment, or the last moment of the calendar."""
    try:
        return moment + (_EPOCH - moment) % BUCKET
    except OverflowError:
        return _MAX_TIME


def _sums(row: RowMapping) -> UsageSums:
    return UsageSums(**{name: _SUM_TYPES[name](row[name]) for name in _SUMMED})
