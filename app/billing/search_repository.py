"""The SQL of looking for receipts: by what, newest first, and those that wait for a price."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    ScalarSelect,
    Select,
    bindparam,
    exists,
    func,
    select,
    tuple_,
)

from app.billing.repository import Receipt, ReceiptBasis, receipt_of
from app.billing.tables import charge_receipts, usage_rollups
from app.billing.usage_repository import BUCKET, bucket_of
from app.db import Reader
from app.ids import AccountId
from app.usage import Origin

_receipts = charge_receipts.c
_rollups = usage_rollups.c

_TICK = timedelta(microseconds=1)
"""Of PostgreSQL's clock."""
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReceiptFilter:
    """Which receipts of an account are wanted; None means any."""

    run_id: str | None = None
    graph_id: str | None = None
    model: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    """Exclusive."""
    api_key_id: UUID | None = None
    basis: ReceiptBasis | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Receipts that still wait for a price."""

    receipts: int
    runs: int
    newest: Sequence[Receipt]


async def newest_receipts(
    reader: Reader,
    account_id: AccountId,
    wanted: ReceiptFilter,
    *,
    limit: int,
    before: tuple[datetime, str] | None,
) -> list[Receipt]:
    """Receipts of an account, newest first, older than (created_at, id)."""
    if before is not None:
        # Said as a window, too: so far the rollups need not be asked, either.
        wanted = replace(wanted, created_to=_earlier(wanted.created_to, _just_after(before[0])))
    statement = (
        select(charge_receipts)
        .where(
            _receipts.account_id == account_id, *_conditions(wanted), *_where_rolled_up(account_id, wanted)
        )
        .order_by(_receipts.created_at.desc(), _receipts.id.desc())
        .limit(limit)
    )
    if before is not None:
        moment, receipt_id = before
        statement = statement.where(tuple_(_receipts.created_at, _receipts.id) < (moment, UUID(receipt_id)))
    return [receipt_of(row) for row in await reader.execute(statement)]


async def waiting_for_a_price(
    reader: Reader,
    account_id: AccountId,
    *,
    since: datetime | None,
    until: datetime | None,
    adjusted_by: str,
    limit: int,
) -> Unpriced:
    """An account's receipts without a price that were not adjusted since; the newest of them."""
    later = charge_receipts.alias()
    waiting = (
        _receipts.account_id == account_id,
        *_conditions(ReceiptFilter(basis="unpriced", created_from=since, created_to=until)),
        ~exists().where(
            later.c.account_id == _receipts.account_id,
            later.c.source_system == adjusted_by,
            later.c.source_reference == _receipts.source_reference,
        ),
    )
    counted = select(func.count(), func.count(_receipts.run_id.distinct())).where(*waiting)
    receipts, runs = (await reader.execute(counted)).one()
    newest = (
        select(charge_receipts)
        .where(*waiting)
        .order_by(_receipts.created_at.desc(), _receipts.id.desc())
        .limit(limit)
    )
    return Unpriced(receipts, runs, [receipt_of(row) for row in await reader.execute(newest)])


def _just_after(moment: datetime) -> datetime:
    # A cursor may name the end of the calendar.
    return min(moment, _LAST_MOMENT - _TICK) + _TICK


def _earlier(moment: datetime | None, other: datetime) -> datetime:
    return other if moment is None else min(moment, other)


def _conditions(wanted: ReceiptFilter) -> list[ColumnElement[bool]]:
    wishes = (
        (_receipts.run_id, wanted.run_id),
        (_receipts.graph_id, wanted.graph_id),
        (_receipts.model, wanted.model),
        (_receipts.api_key_id, wanted.api_key_id),
        (_receipts.basis, _in_the_text(wanted.basis)),
        (_receipts.origin, _in_the_text(wanted.origin)),
    )
    conditions = [column == value for column, value in wishes if value is not None]
    if wanted.created_from is not None:
        conditions.append(_receipts.created_at >= wanted.created_from)
    if wanted.created_to is not None:
        conditions.append(_receipts.created_at < wanted.created_to)
    return conditions


def _in_the_text(value: str | None) -> BindParameter[str] | None:
    """A value the planner sees: a partial index is of no use to a statement with a parameter."""
    return None if value is None else bindparam(None, value, literal_execute=True)


def _where_rolled_up(account_id: AccountId, wanted: ReceiptFilter) -> list[ColumnElement[bool]]:
    """Asked once of the few rollups: what is rare, or not there, must not read every receipt."""
    wishes = (
        (_rollups.graph_id, wanted.graph_id),
        (_rollups.model, wanted.model),
        (_rollups.api_key_id, wanted.api_key_id),
    )
    matching = [column == value for column, value in wishes if value is not None]
    if not matching:
        return []
    if wanted.created_from is not None:
        matching.append(_rollups.bucket >= bucket_of(wanted.created_from))
    if wanted.created_to is not None:
        matching.append(_rollups.bucket < wanted.created_to)
    found: Select[Any] = select(_rollups.bucket).where(_rollups.account_id == account_id, *matching).limit(1)
    first: ScalarSelect[datetime] = found.order_by(_rollups.bucket).scalar_subquery()
    last: ScalarSelect[datetime] = found.order_by(_rollups.bucket.desc()).scalar_subquery()
    return [_receipts.created_at >= first, _receipts.created_at < last + BUCKET]
