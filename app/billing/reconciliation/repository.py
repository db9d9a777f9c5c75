"""SQL for reconciliations: what receipts record, and what comparisons found."""

from collections.abc import Collection
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Table, delete, exists, func, insert, select, text, update
from sqlalchemy.dialects import postgresql

from app.billing.prices.model_names import RELEASE
from app.billing.receipts.records import Receipt
from app.billing.receipts.repository import receipt_of
from app.billing.receipts.tables import charge_receipts, measured_receipts
from app.billing.reconciliation import records
from app.billing.reconciliation.schedule import REPEATED, History
from app.billing.reconciliation.tables import (
    price_differences,
    reconciled_usage,
    reconciliation_differences,
    reconciliations,
)
from app.ids import AccountId, RunKey
from app.platform.db import Reader, Transaction, page_of
from app.platform.pagination import PageRequest

DATED = RELEASE.pattern
"""Names of models are compared without it."""

_receipts = measured_receipts.c
_charged = charge_receipts.c
_runs = reconciliations.c
_hours = reconciled_usage.c
_found = reconciliation_differences.c
_prices = price_differences.c

_UNIT_STEP = Decimal("1e-18")
_DIMENSION_NAMES = records.Dimensions._fields

_RECORDED = text(
    f"""
    SELECT date_trunc('minute', used_at) AS began, date_trunc('minute', created_at) AS ended, account_id,
           model, requested_model, inference_geo, service_tier, speed,
           input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens
               > {records.LONG_PROMPT} AS long_prompt,
           output_estimated, usage_unit_id LIKE 'unanswered-%' AS unanswered,
           (stop_reason = 'refusal' AND output_tokens = 0) IS TRUE AS refused,
           jsonb_array_length(unpriced) > 0 AS unpriced,
           count(*) FILTER (WHERE basis <> 'adjustment') AS receipts, sum(cost_usd) AS cost_usd,
           sum(input_tokens) AS input, sum(output_tokens) AS output, sum(cache_read_tokens) AS cache_read,
           sum(cache_write_5m_tokens) AS cache_write_5m, sum(cache_write_1h_tokens) AS cache_write_1h,
           sum(web_search_requests) AS web_search_requests
      FROM measured_receipts
     WHERE used_at >= :start AND used_at < :end
       AND (jsonb_typeof(provider_usage -> 'iterations') = 'array') IS NOT TRUE
       AND (jsonb_typeof(provider_usage -> 'server_tool_use') = 'object') IS NOT TRUE
     GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
    """  # noqa: S608 - a constant
)
"""Sums of the receipts whose counts are all of one model."""

_IN_PARTS = text(
    "((jsonb_typeof(provider_usage -> 'iterations') = 'array') IS TRUE"
    " OR (jsonb_typeof(provider_usage -> 'server_tool_use') = 'object') IS TRUE)"
)


_COMPARED = text(
    """
    WITH complete AS (
        SELECT window_start, window_end, least(window_end, started_at - CAST(:late AS interval)) AS final_end
          FROM reconciliations
         WHERE state = 'complete' AND window_end > :start AND window_start < :end
           AND window_end <= started_at
    ), parts AS (
        SELECT tstzrange(window_start, final_end) AS part FROM complete WHERE final_end > window_start
         UNION ALL
        SELECT tstzrange(greatest(window_start, :recent), window_end) FROM complete WHERE window_end > :recent
    )
    SELECT lower(part) AS start, upper(part) AS "end"
      FROM (SELECT unnest(range_agg(part)) AS part FROM parts) AS merged
     ORDER BY 1
    """
)
"""Of earlier days, only what was compared when its reports and receipts could no longer be late.

A window that was compared before it had ended is from a clock that was wrong.
"""

_FAILURES = text(
    """
    SELECT window_start AS start, max(finished_at) AS failed_at
      FROM reconciliations WHERE state = 'failed' AND window_end > :start AND window_start < :end
     GROUP BY 1
    """
)


async def find_recorded(reader: Reader, window: records.Window) -> list[records.RecordedUsage]:
    """Sums by minute of the receipts that consist of one part."""
    rows = (await reader.execute(_RECORDED, window._asdict())).mappings()
    return [
        records.RecordedUsage(
            began=row["began"],
            ended=row["ended"],
            account_id=AccountId(row["account_id"]),
            dimensions=records.normal_dimensions(
                row["model"],
                inference_geo=row["inference_geo"],
                service_tier=row["service_tier"],
                speed=row["speed"],
                context_window=records.LONG_CONTEXT if row["long_prompt"] else None,
            ),
            counts=tuple(int(row[kind]) for kind in records.KINDS),
            receipts=row["receipts"],
            cost_usd=row["cost_usd"],
            served_model=row["model"],
            requested_model=row["requested_model"],
            estimated_output=row["output_estimated"],
            unanswered=row["unanswered"],
            refused=row["refused"],
            unpriced=row["unpriced"],
        )
        for row in rows
    ]


async def find_receipts_in_parts(
    reader: Reader, window: records.Window, *, after: tuple[datetime, UUID] | None, limit: int
) -> list[Receipt]:
    """The other receipts, in the order of time, after a time and id."""
    statement = select(measured_receipts).where(
        _receipts.used_at >= window.start, _receipts.used_at < window.end, _IN_PARTS
    )
    if after is not None:
        statement = statement.where(
            text("(measured_receipts.used_at, measured_receipts.id) > (:after_at, :after_id)").bindparams(
                after_at=after[0], after_id=after[1]
            )
        )
    statement = statement.order_by(_receipts.used_at, _receipts.id).limit(limit)
    return [receipt_of(row) for row in (await reader.execute(statement)).mappings()]


async def find_equal_receipts(
    reader: Reader,
    window: records.Window,
    dimensions: records.Dimensions,
    counts: records.Counts,
    *,
    limit: int,
) -> list[records.EqualReceipt]:
    columns = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens")
    values = zip((*columns, "cache_write_1h_tokens", "web_search_requests"), counts, strict=True)
    statement = (
        select(_receipts.id, _receipts.account_id, _receipts.source_reference)
        .where(
            _receipts.used_at >= window.start,
            _receipts.used_at < window.end,
            _receipts.basis != "adjustment",
            func.regexp_replace(_receipts.model, DATED, "") == dimensions.model,
            *(_receipts[name] == value for name, value in values),
        )
        .order_by(_receipts.used_at, _receipts.id)
        .limit(limit)
    )
    return [records.EqualReceipt(**row) for row in (await reader.execute(statement)).mappings()]


async def claim(tx: Transaction, id_: UUID, window: records.Window, *, lease: timedelta) -> bool:
    """Begin a reconciliation unless another one is running."""
    now = func.clock_timestamp()
    await tx.execute(
        update(reconciliations)
        .where(_runs.state == "running", _runs.lease_until < now)
        .values(state="failed", problem="The process ended before the comparison did.", finished_at=now)
    )
    claimed = await tx.execute(
        postgresql.insert(reconciliations)
        .values(
            id=id_,
            window_start=window.start,
            window_end=window.end,
            state="running",
            started_at=now,
            lease_until=now + lease,
        )
        .on_conflict_do_nothing(index_elements=["state"], index_where=text("state = 'running'"))
        .returning(_runs.id)
    )
    return claimed.first() is not None


async def fail(tx: Transaction, id_: UUID, problem: str) -> None:
    """End a reconciliation that found nothing out."""
    await tx.execute(
        update(reconciliations)
        .where(_runs.id == id_, _runs.state == "running")
        .values(state="failed", problem=problem, finished_at=func.clock_timestamp())
    )


async def complete(
    tx: Transaction, id_: UUID, result: records.ReconciledWindow, *, gone: Collection[UUID]
) -> bool:
    """Store what is new, and that differences are `gone`; False if the claim was lost."""
    ended = await tx.execute(
        update(reconciliations)
        .where(_runs.id == id_, _runs.state == "running")
        .values(state="complete", summary=dict(result.summary), finished_at=func.clock_timestamp())
    )
    if ended.rowcount != 1:
        return False
    window = result.window
    for table in (reconciliation_differences, price_differences):
        await tx.execute(update(table).where(table.c.id.in_(gone)).values(superseded_by=id_))
    await tx.execute(delete(reconciled_usage).where(_hours.hour >= window.start, _hours.hour < window.end))
    await _insert(tx, reconciled_usage, [{**asdict(each), "reconciliation_id": id_} for each in result.hours])
    await _insert(tx, reconciliation_differences, [_row(id_, each) for each in result.differences])
    await _insert(tx, price_differences, [_price_row(id_, each) for each in result.prices])
    return True


async def find_history(reader: Reader, span: records.Window) -> History:
    """What was compared in a time, and what failed."""
    first = select(func.min(_runs.window_start)).where(_runs.window_start < span.end)
    given = {**span._asdict(), "recent": span.end - REPEATED, "late": REPEATED - records.HOUR}
    compared = (await reader.execute(_COMPARED, given)).mappings()
    failures = (await reader.execute(_FAILURES, span._asdict())).mappings()
    return History(
        compared=[records.Window(row["start"], row["end"]) for row in compared],
        first_start=(await reader.execute(first)).scalar(),
        failures={row["start"]: row["failed_at"] for row in failures},
    )


async def find_differences(
    reader: Reader,
    window: records.Window,
    page: PageRequest | None = None,
    *,
    explained: bool | None = None,
    account_id: AccountId | None = None,
    run: RunKey | None = None,
) -> list[records.Difference]:
    """Differences that the latest comparison of their time has found; those of a page newest first.

    `run`: only those about its account, in whose time and model it has receipts.
    """
    statement = _current(reconciliation_differences, window)
    if explained is not None:
        statement = statement.where(_found.explained == explained)
    if account_id is not None:
        statement = statement.where(_found.account_id == account_id)
    if run is not None:
        statement = statement.where(_found.account_id == run.account_id, _touches(run))
    if page is not None:
        statement = page_of(statement, page, at=_found.starting_at, id_=_found.id)
    return [_difference(row) for row in (await reader.execute(statement)).mappings()]


def _touches(run: RunKey) -> ColumnElement[bool]:
    """Whether the run has receipts of a difference's time and model."""
    return exists().where(
        _charged.account_id == run.account_id,
        _charged.run_id == run.run_id,
        func.regexp_replace(_charged.model, DATED, "") == _found.model,
        _charged.used_at < _found.ending_at,
        _charged.created_at >= _found.starting_at,
    )


async def find_price_differences(
    reader: Reader, window: records.Window, *, limit: int | None = None
) -> list[records.PriceDifference]:
    """Prices that the latest audit of their time has found to differ, newest first."""
    statement = _current(price_differences, window)
    statement = statement.order_by(_prices.starting_at.desc(), _prices.id.desc()).limit(limit)
    return [_price_difference(row) for row in (await reader.execute(statement)).mappings()]


def _current(table: Table, window: records.Window) -> Select[Any]:
    found = table.c
    return select(table).where(
        found.superseded_by.is_(None), found.starting_at >= window.start, found.starting_at < window.end
    )


async def _insert(tx: Transaction, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        await tx.execute(insert(table), rows)


def _row(id_: UUID, each: records.Difference) -> dict[str, Any]:
    return {
        **_columns(id_, each),
        "explained": each.is_explained,
        "counts": records.by_kind(each.counts),
        "lines": list(each.lines),
        "evidence": dict(each.evidence),
    }


def _price_row(id_: UUID, each: records.PriceDifference) -> dict[str, Any]:
    return {
        **_columns(id_, each),
        "provider_unit_usd": _unit(each.provider_unit_usd),
        "own_unit_usd": None if each.own_unit_usd is None else _unit(each.own_unit_usd),
    }


def _columns(id_: UUID, each: records.Difference | records.PriceDifference) -> dict[str, Any]:
    values = {name: getattr(each, name) for name in _names(type(each))}
    return {**values, **each.dimensions._asdict(), "reconciliation_id": id_}


def _names(record: type[records.Difference | records.PriceDifference]) -> list[str]:
    """The fields that are columns of the same name."""
    return [each.name for each in fields(record) if each.name != "dimensions"]


def _unit(dollars: Decimal) -> Decimal:
    return dollars.quantize(_UNIT_STEP, ROUND_HALF_UP)


def _difference(row: Any) -> records.Difference:
    values: dict[str, Any] = {name: row[name] for name in _names(records.Difference)}
    return records.Difference(
        dimensions=_dimensions(row), **{**values, "counts": records.counts_from(row["counts"])}
    )


def _price_difference(row: Any) -> records.PriceDifference:
    values: dict[str, Any] = {name: row[name] for name in _names(records.PriceDifference)}
    return records.PriceDifference(dimensions=_dimensions(row), **values)


def _dimensions(row: Any) -> records.Dimensions:
    return records.Dimensions(*(row[name] for name in _DIMENSION_NAMES))
