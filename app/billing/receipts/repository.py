"""SQL for receipts."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from pydantic_core import to_json
from sqlalchemy import BindParameter, Column, Exists, Numeric, exists, func, select, text, tuple_
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import RowMapping

from app.billing.receipts.open_messages.repository import locking_open_messages
from app.billing.receipts.records import (
    ChargedMessage,
    InsertedReceipts,
    MessageKey,
    NewReceipt,
    Receipt,
    RunTotals,
)
from app.billing.receipts.tables import charge_receipts, measured_receipts
from app.ids import AccountId
from app.platform.db import Reader, Transaction
from app.platform.postgres.prepared import Prepared
from app.platform.postgres.statements import is_one_of
from app.usage.records import SOURCE_SYSTEM, TokenUsage, parse_key

_receipts = charge_receipts.c

_DIALECT = registry.load("postgresql")()
_INSERTED = tuple(column for column in _receipts if column.name != "created_at")
_NAMES = ", ".join(column.name for column in _INSERTED)
_AS_TEXT: Mapping[type, Callable[[Any], str]] = {
    Numeric: str,
    JSONB: lambda value: to_json(value).decode(),
}
"""How values of these types are sent: PostgreSQL reads text faster than Python encodes them."""


def _kind(column: Column[Any]) -> str:
    return column.type.compile(dialect=_DIALECT)


def _array(column: Column[Any]) -> str:
    kind = "TEXT" if type(column.type) in _AS_TEXT else _kind(column)
    return f"CAST(:{column.name} AS {kind}[])"


_ARRAYS = ", ".join(map(_array, _INSERTED))
_OF_RUN = "(SELECT end_user FROM runs WHERE (account_id, run_id) = (new.account_id, new.run_id))"
_FROM_ELSEWHERE = {
    # Receipts may come after the erasure of their end user, for example from a journal.
    "end_user": f"CASE WHEN new.end_user IS NOT NULL THEN coalesce({_OF_RUN}, new.end_user) END AS end_user",
}
_VALUES = ", ".join(
    _FROM_ELSEWHERE.get(column.name, f"CAST({column.name} AS {_kind(column)})") for column in _INSERTED
)
_CHANGED_BY_FENCE = {"basis": "'fenced'", "charged_credits": "0"}
_FENCED = ", ".join(_CHANGED_BY_FENCE.get(column.name, column.name) for column in _INSERTED)

_INSERT = Prepared(
    f"""
    WITH closed AS (
        -- Not only of those inserted: whatever stored the others, their messages are not in progress.
        DELETE FROM open_messages WHERE (account_id, source_reference) IN (
            {locking_open_messages(_array(_receipts.account_id), _array(_receipts.source_reference))})
        RETURNING TRUE
    ), new AS (
        SELECT {_VALUES}, EXISTS (
            SELECT FROM run_takeovers AS lost
             WHERE lost.account_id = new.account_id AND lost.run_id = new.run_id
               AND lost.attempt = new.attempt
               AND lost.at + make_interval(secs => lost.clock_ahead_s) < new.used_at) AS is_fenced
          -- Messages before receipts, like what recovers them: the count is there once they are locked.
          FROM (SELECT count(*) FROM closed) AS closed,
               (SELECT * FROM unnest({_ARRAYS}) LIMIT cardinality({_array(_receipts.id)})) AS new ({_NAMES})
    ), inserted AS (
        INSERT INTO charge_receipts ({_NAMES}, created_at)
        SELECT {_NAMES}, clock_timestamp() FROM new WHERE NOT is_fenced
        ON CONFLICT DO NOTHING
        RETURNING id, account_id, run_id, charged_credits, used_at
    ), debited AS (
        INSERT INTO credit_ledger (account_id, kind, credits, receipt_id, run_id, created_at, used_at)
        SELECT account_id, 'debit', -charged_credits, id, run_id, clock_timestamp(), used_at FROM inserted
    ), fenced AS (
        INSERT INTO fenced_receipts ({_NAMES}, created_at)
        SELECT {_FENCED}, clock_timestamp() FROM new WHERE is_fenced
        ON CONFLICT DO NOTHING
        RETURNING id
    )
    SELECT id, FALSE AS is_fenced FROM inserted UNION ALL SELECT id, TRUE FROM fenced
    """,  # noqa: S608 - names and types of columns
)
"""Inserts receipts and their debits in one statement; triggers update the sums.

A message that began after its attempt was taken over is not charged: see `fenced_receipts`. When it began
is known by the clock of its process.

The limit is how many receipts there are. With it PostgreSQL expects one instead of ten, and keeps a plan.

The conflict names no constraint: of two transactions that insert the same receipt at once, the later one
meets the primary key as well as the unique source.
"""


async def insert_receipts(tx: Transaction, receipts: Sequence[NewReceipt]) -> InsertedReceipts:
    # Every transaction in the same order: otherwise two with the same receipts could wait for each other.
    receipts = sorted(receipts, key=attrgetter("source"))
    arrays = {column.name: _stored(column, receipts) for column in _INSERTED}
    rows = await _INSERT.fetch(tx, arrays)
    fenced = {row["id"] for row in rows if row["is_fenced"]}
    return InsertedReceipts({row["id"] for row in rows} - fenced, fenced)


async def find_by_source(reader: Reader, keys: Collection[str]) -> list[Receipt]:
    """The receipts of messages by the keys of their facts."""
    statement = select(charge_receipts).where(
        _receipts.source_system == SOURCE_SYSTEM,
        tuple_(_receipts.account_id, _receipts.source_reference).in_([parse_key(key) for key in keys]),
    )
    return [receipt_of(row) for row in (await reader.execute(statement)).mappings()]


async def find_charged(
    reader: Reader, receipts: Sequence[NewReceipt]
) -> dict[tuple[UUID, str, str], ChargedMessage]:
    """What is stored of the messages that these receipts charge, by `NewReceipt.source`."""
    if not receipts:
        return {}
    stored = measured_receipts.c
    key = (stored.account_id, stored.source_system, stored.source_reference)
    counts = [each.name for each in fields(TokenUsage)]
    statement = select(*key, stored.id, stored.basis, *(stored[name] for name in counts)).where(
        tuple_(*key).in_([receipt.source for receipt in receipts])
    )
    return {
        (row.account_id, row.source_system, row.source_reference): ChargedMessage(
            row.id,
            is_fenced=row.basis == "fenced",
            usage=TokenUsage(**{name: getattr(row, name) for name in counts}),
        )
        for row in await reader.execute(statement)
    }


async def find_unadjusted(
    reader: Reader, *, adjusted_by: str, after: UUID | None, limit: int
) -> list[Receipt]:
    """Unpriced receipts of all accounts that no receipt of the source system `adjusted_by` has completed.

    In the order of their ids, those after `after`.
    """
    # The planner uses the partial index only for a value that it can see.
    unpriced = text("charge_receipts.basis = 'unpriced'")
    statement = select(charge_receipts).where(unpriced, ~adjustment_exists(adjusted_by))
    if after is not None:
        statement = statement.where(_receipts.id > after)
    statement = statement.order_by(_receipts.id).limit(limit)
    return [receipt_of(row) for row in (await reader.execute(statement)).mappings()]


async def find_used_since(
    reader: Reader, since: datetime, *, after: UUID | None, limit: int
) -> list[Receipt]:
    """Receipts of messages of all accounts that began at this moment or later, in the order of their ids."""
    if after is None:
        # By time, which finds few; ids would be read from the beginning of all receipts until some are found.
        used = select(_receipts.id).where(_receipts.used_at >= since).cte("used").prefix_with("MATERIALIZED")
        is_later = _receipts.id >= select(used.c.id).order_by(used.c.id).limit(1).scalar_subquery()
    else:
        is_later = _receipts.id > after
    # From there on by id: the offset keeps the planner from reading all since then by time, for each slice.
    later = select(charge_receipts).where(is_later).order_by(_receipts.id).offset(0).subquery()
    statement = select(later).where(later.c.used_at >= since, later.c.basis != "adjustment")
    statement = statement.order_by(later.c.id).limit(limit)
    return [receipt_of(row) for row in (await reader.execute(statement)).mappings()]


async def find_adjustments(
    reader: Reader, receipts: Sequence[Receipt]
) -> defaultdict[MessageKey, list[Receipt]]:
    """The adjustments of the runs of these receipts, by message."""
    runs = {(receipt.account_id, receipt.run_id) for receipt in receipts}
    statement = select(charge_receipts).where(
        tuple_(_receipts.account_id, _receipts.run_id).in_(runs), _receipts.basis == "adjustment"
    )
    found: defaultdict[MessageKey, list[Receipt]] = defaultdict(list)
    for row in (await reader.execute(statement)).mappings():
        adjustment = receipt_of(row)
        found[adjustment.message].append(adjustment)
    return found


async def find_run_receipts(reader: Reader, account_id: AccountId, run_ids: Collection[str]) -> list[Receipt]:
    """Those of these runs of an account, the oldest first."""
    statement = (
        select(charge_receipts)
        .where(_receipts.account_id == account_id, is_one_of(_receipts.run_id, run_ids))
        .order_by(_receipts.used_at, _receipts.id)
    )
    return [receipt_of(row) for row in (await reader.execute(statement)).mappings()]


async def sum_runs(reader: Reader, account_id: AccountId, run_ids: Sequence[str]) -> dict[str, RunTotals]:
    """The charges of these runs of an account, by run id; runs without receipts are absent."""
    statement = (
        select(
            _receipts.run_id,
            func.count().filter(_receipts.basis != "adjustment").label("receipts"),
            func.sum(_receipts.cost_usd).label("cost_usd"),
            func.sum(func.web_fetches_of(_receipts.basis, _receipts.provider_usage)).label("fetches"),
            *(func.sum(_receipts[each.name]).label(each.name) for each in fields(TokenUsage)),
        )
        .where(_receipts.account_id == account_id, is_one_of(_receipts.run_id, run_ids))
        .group_by(_receipts.run_id)
    )
    found = await reader.execute(statement)
    return {row.run_id: _totals(row) for row in found}


def _totals(row: Any) -> RunTotals:
    usage = TokenUsage(**{each.name: int(getattr(row, each.name)) for each in fields(TokenUsage)})
    return RunTotals(row.receipts, row.cost_usd, usage.web_search_requests, int(row.fetches), usage)


def adjustment_exists(source_system: str | BindParameter[str]) -> Exists:
    """Whether a receipt of this source system charges the same message."""
    adjustment = charge_receipts.alias()
    return exists().where(
        adjustment.c.account_id == _receipts.account_id,
        adjustment.c.source_system == source_system,
        adjustment.c.source_reference == _receipts.source_reference,
    )


def _stored(column: Column[Any], receipts: Sequence[NewReceipt]) -> list[Any]:
    values = list(map(attrgetter(column.name), receipts))
    as_text = _AS_TEXT.get(type(column.type))
    return values if as_text is None else [None if value is None else as_text(value) for value in values]


def receipt_of(row: RowMapping) -> Receipt:
    columns: dict[str, Any] = dict(row)
    return Receipt(**columns)
