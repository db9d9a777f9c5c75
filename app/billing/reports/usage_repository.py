"""SQL for usage reports: sums of rollups, and of receipts where a bucket is only partly in the window."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import sqlalchemy as sa
from sqlalchemy.engine import RowMapping

from app.billing.receipts.tables import MISS_CAUSE, charge_receipts
from app.billing.reports.records import CacheMissSums, GroupBy, UsageBreakdown, UsageFilter, UsageSums
from app.billing.reports.tables import labelled_rollups, usage_rollups
from app.ids import AccountId
from app.platform.db import Reader
from app.platform.postgres.labels import labels_match
from app.requests.attribution import END_USER_LABEL, TAG_PREFIX

BUCKET = timedelta(minutes=15)
"""Must match the trigger that keeps the rollups. Days of every time zone begin with a bucket."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME = datetime.max.replace(tzinfo=UTC)

_SUMMED = tuple(field.name for field in fields(UsageSums))
_SUM_TYPES = get_type_hints(UsageSums)
"""PostgreSQL sums bigints into numerics."""
_SUMMED_COLUMNS = tuple(name for name in _SUMMED if name not in ("receipts", "web_fetch_requests"))
_receipts = charge_receipts.c
_GROUPED = ("account_id", "model", "graph_id", "api_key_id")
_COLUMN_OF = {"model": "model", "graph": "graph_id", "key": "api_key_id", "account": "account_id"}
"""By group; that of an end user or tag is `value`."""
_HOUR = 'YYYY-MM-DD"T"HH24:MI"Z"'


async def grouped_usage(
    reader: Reader,
    account_id: AccountId | None,
    group_by: GroupBy | None,
    *,
    filters: UsageFilter,
    time_zone: str,
) -> list[UsageBreakdown]:
    """Sums by group, in the order of the groups; one group named "" without `group_by`."""
    usage = matching_rows(account_id, filters)
    group = group_of(usage.c, group_by, time_zone)
    statement = sa.select(group.label("group"), *summed(usage)).group_by(group).order_by(group)
    found = (await reader.execute(statement)).mappings()
    return [UsageBreakdown(row["group"], sums_of(row)) for row in found]


async def split_usage(
    reader: Reader,
    account_id: AccountId | None,
    group_by: GroupBy,
    *,
    split_by: GroupBy,
    top: int,
    filters: UsageFilter,
    time_zone: str,
) -> list[UsageBreakdown]:
    """Sums by group and part; parts that are not among the `top` most charged are summed with part None."""
    usage = matching_rows(account_id, filters)
    group, split = group_of(usage.c, group_by, time_zone), group_of(usage.c, split_by, time_zone)
    pairs = (
        sa.select(group.label("group"), split.label("split"), *summed(usage))
        .group_by(group, split)
        .cte("pairs")
    )
    leaders = (
        sa.select(pairs.c.split)
        .group_by(pairs.c.split)
        .order_by(sa.func.sum(pairs.c.charged_credits).desc(), pairs.c.split)
        .limit(top)
        .subquery("leaders")
    )
    statement = (
        sa.select(pairs.c.group, leaders.c.split, *summed(pairs))
        .select_from(pairs.outerjoin(leaders, leaders.c.split == pairs.c.split))
        .group_by(pairs.c.group, leaders.c.split)
        .order_by(pairs.c.group, leaders.c.split.nulls_last())
    )
    found = (await reader.execute(statement)).mappings()
    return [UsageBreakdown(row["group"], sums_of(row), row["split"]) for row in found]


async def cache_misses(
    reader: Reader, account_id: AccountId, filters: UsageFilter, *, top: int
) -> list[CacheMissSums]:
    """The misses of the prompt cache by graph, model and cause, the `top` most expensive first."""
    miss, adjustment = _receipts.cache_miss, charge_receipts.alias()
    of_message = ("account_id", "run_id", "attempt", "usage_unit_id")
    adjusted = (
        sa.select(sa.func.coalesce(sa.func.sum(adjustment.c.cache_miss_usd), 0))
        .where(*(adjustment.c[name] == _receipts[name] for name in of_message))
        .where(adjustment.c.basis == "adjustment")
        .scalar_subquery()
    )
    tokens = miss["expected_tokens"].as_integer() - miss["read_tokens"].as_integer()
    part = sa.func.split_part(miss["part"].astext, "[", 1)
    groups = (_receipts.graph_id, _receipts.model, MISS_CAUSE.label("cause"), part.label("part"))
    cost = sa.func.sum(_receipts.cache_miss_usd + adjusted)
    sums = (sa.func.count().label("receipts"), sa.func.sum(tokens).label("missed_tokens"))
    statement = (
        sa.select(*groups, *sums, cost.label("cost_usd"))
        .where(
            MISS_CAUSE.is_not(None),
            *_conditions(_receipts, account_id, filters),
            *labels_match(_receipts, filters.labels),
            *([] if filters.since is None else [_receipts.used_at >= filters.since]),
            *([] if filters.until is None else [_receipts.used_at < filters.until]),
        )
        .group_by(*groups)
        .order_by(cost.desc(), *groups)
        .limit(top)
    )
    return [CacheMissSums(**row) for row in (await reader.execute(statement)).mappings()]


def matching_rows(
    account_id: AccountId | None, filters: UsageFilter, label: str | None = None
) -> sa.Subquery:
    """Rows to sum up, of all accounts if none is named; of a `label` only those with it, with its `value`."""
    label = next(iter(filters.labels.named), label)
    return sa.union_all(
        _whole_buckets(account_id, filters, label), *_partial_buckets(account_id, filters, label)
    ).subquery()


def summed(usage: sa.FromClause) -> list[sa.ColumnElement[Any]]:
    return [sa.func.sum(usage.c[name]).label(name) for name in _SUMMED]


def _whole_buckets(account_id: AccountId | None, filters: UsageFilter, label: str | None) -> sa.Select[Any]:
    rollups: Any = (usage_rollups if label is None else labelled_rollups).c
    statement = sa.select(
        rollups.bucket.label("moment"),
        *(rollups[name] for name in _GROUPED),
        *(rollups[name] for name in _SUMMED),
        sa.literal(None, sa.String).label("value") if label is None else rollups.value,
    ).where(*_conditions(rollups, account_id, filters))
    if label is not None:
        statement = statement.where(rollups.label == label)
    for value in filters.labels.named.values():
        statement = statement.where(rollups.value == value)
    if filters.since is not None:
        statement = statement.where(rollups.bucket >= _bucket_after(filters.since))
    if filters.until is not None:
        statement = statement.where(rollups.bucket < bucket_of(filters.until))
    return statement


def _partial_buckets(
    account_id: AccountId | None, filters: UsageFilter, label: str | None
) -> list[sa.Select[Any]]:
    """The receipts of buckets that are only partly in the window."""
    moment, since, until = _receipts.used_at, filters.since, filters.until
    bounds, partial_ranges = [], []
    if since is not None:
        bounds.append(moment >= since)
        partial_ranges.append(sa.and_(moment >= since, moment < _bucket_after(since)))
    if until is not None:
        bounds.append(moment < until)
        partial_ranges.append(sa.and_(moment >= bucket_of(until), moment < until))
    if not partial_ranges:
        return []
    receipts = sa.case((_receipts.basis == "adjustment", 0), else_=1)
    value = _value_of(label)
    return [
        sa.select(
            moment.label("moment"),
            *(_receipts[name] for name in _GROUPED),
            receipts.label("receipts"),
            *(_receipts[name] for name in _SUMMED_COLUMNS),
            sa.func.web_fetches_of(_receipts.basis, _receipts.provider_usage).label("web_fetch_requests"),
            value.label("value"),
        ).where(
            *_conditions(_receipts, account_id, filters),
            *labels_match(_receipts, filters.labels),
            sa.true() if label is None else value.is_not(None),
            sa.or_(*partial_ranges),
            *bounds,
        )
    ]


def _value_of(label: str | None) -> sa.ColumnElement[Any]:
    if label is None:
        return sa.literal(None, sa.String)
    if label == END_USER_LABEL:
        return _receipts.end_user
    found: sa.ColumnElement[Any] = _receipts.tags[label.removeprefix(TAG_PREFIX)].astext
    return found


def _conditions(
    columns: Any, account_id: AccountId | None, filters: UsageFilter
) -> list[sa.ColumnElement[bool]]:
    columns_and_values = (
        (columns.account_id, account_id),
        (columns.model, filters.model),
        (columns.graph_id, filters.graph_id),
        (columns.api_key_id, filters.api_key_id),
    )
    return [column == value for column, value in columns_and_values if value is not None]


def group_of(columns: Any, group_by: GroupBy | None, time_zone: str) -> sa.ColumnElement[str]:
    """The group of each of `matching_rows`, as text."""
    if group_by is None:
        return sa.cast(sa.literal(""), sa.String)
    if group_by == "hour":
        # By the offset of the moment: an hour that a clock shows twice is two.
        begun = sa.func.date_trunc("hour", columns.moment, time_zone)
        return sa.func.to_char(sa.func.timezone("UTC", begun), _HOUR)
    if group_by == "day":
        return sa.cast(sa.cast(sa.func.timezone(time_zone, columns.moment), sa.Date), sa.String)
    if group_by == "provider":
        return sa.func.split_part(columns.graph_id, ":", 1)
    return sa.cast(columns[_COLUMN_OF.get(group_by, "value")], sa.String)


def bucket_of(moment: datetime) -> datetime:
    return moment - (moment - _EPOCH) % BUCKET


def _bucket_after(moment: datetime) -> datetime:
    """The first bucket that begins at or after a moment, or the last moment of the calendar."""
    try:
        return moment + (_EPOCH - moment) % BUCKET
    except OverflowError:
        return _MAX_TIME


def sums_of(row: RowMapping) -> UsageSums:
    return UsageSums(**{name: _SUM_TYPES[name](row[name]) for name in _SUMMED})
