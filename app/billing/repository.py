"""The SQL of charge receipts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, select, tuple_
from sqlalchemy.dialects import postgresql

from app.billing.pricing import Charge
from app.billing.tables import charge_receipts
from app.db import Reader, Transaction
from app.ids import AccountId, RunKey, new_uuid
from app.usage import SOURCE_SYSTEM, Attribution, UsageFact

_receipts = charge_receipts.c


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one assistant message was charged; the fields are the columns, in their order."""

    id: UUID
    source_system: str
    source_reference: str
    run_id: str
    attempt: int
    usage_unit_id: str
    account_id: UUID
    api_key_id: UUID
    graph_id: str
    executor_type: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cost_usd: Decimal
    charged_credits: int
    basis: str
    output_estimated: bool
    origin: str
    parent_tool_call_id: str | None
    ingress_request_id: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ReceiptFilter:
    """Which receipts of an account are wanted; None means any."""

    run_id: str | None = None
    graph_id: str | None = None
    model: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What a run has been charged so far."""

    receipts: int = 0
    cost_usd: Decimal = Decimal(0)


async def insert_receipt(
    tx: Transaction,
    fact: UsageFact,
    attribution: Attribution,
    charge: Charge,
) -> bool:
    """Insert the receipt of a fact; False when somebody was faster."""
    usage = fact.usage
    inserted = await tx.execute(
        postgresql.insert(charge_receipts)
        .values(
            id=new_uuid(),
            source_system=SOURCE_SYSTEM,
            source_reference=fact.source_reference,
            run_id=fact.run.run_id,
            attempt=fact.attempt,
            usage_unit_id=fact.message_id,
            account_id=fact.run.account_id,
            api_key_id=attribution.api_key_id,
            graph_id=attribution.graph_id,
            executor_type=fact.executor_type,
            model=fact.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_5m_tokens=usage.cache_write_5m_tokens,
            cache_write_1h_tokens=usage.cache_write_1h_tokens,
            cost_usd=charge.cost_usd,
            charged_credits=charge.charged_credits,
            basis=fact.basis,
            output_estimated=fact.output_estimated,
            origin=fact.origin,
            parent_tool_call_id=fact.parent_tool_call_id,
            ingress_request_id=attribution.ingress_request_id,
            created_at=func.clock_timestamp(),
        )
        .on_conflict_do_nothing(constraint="uq_charge_receipts_source")
        .returning(_receipts.id),
    )
    return inserted.first() is not None


async def receipts_of_run(reader: Reader, run: RunKey) -> list[Receipt]:
    """A run's receipts, oldest first."""
    statement = select(charge_receipts).where(*_of(run)).order_by(_receipts.created_at, _receipts.id)
    return [_receipt(row) for row in await reader.execute(statement)]


async def newest_receipts(
    reader: Reader,
    account_id: AccountId,
    wanted: ReceiptFilter,
    *,
    limit: int,
    before: tuple[datetime, str] | None,
) -> list[Receipt]:
    """Receipts of an account, newest first, older than (created_at, id)."""
    statement = (
        _filtered(select(charge_receipts).where(_receipts.account_id == account_id), wanted)
        .order_by(_receipts.created_at.desc(), _receipts.id.desc())
        .limit(limit)
    )
    if before is not None:
        moment, receipt_id = before
        statement = statement.where(tuple_(_receipts.created_at, _receipts.id) < (moment, UUID(receipt_id)))
    return [_receipt(row) for row in await reader.execute(statement)]


async def totals_of_runs(
    reader: Reader,
    account_id: AccountId,
    run_ids: Sequence[str],
) -> dict[str, RunTotals]:
    """What these runs of an account have been charged; runs without receipts are left out."""
    statement = (
        select(_receipts.run_id, func.count(), func.sum(_receipts.cost_usd))
        .where(_receipts.account_id == account_id, _receipts.run_id.in_(run_ids))
        .group_by(_receipts.run_id)
    )
    return {run_id: RunTotals(*sums) for run_id, *sums in await reader.execute(statement)}


def _filtered(statement: Select[Any], wanted: ReceiptFilter) -> Select[Any]:
    for column, value in (
        (_receipts.run_id, wanted.run_id),
        (_receipts.graph_id, wanted.graph_id),
        (_receipts.model, wanted.model),
    ):
        if value is not None:
            statement = statement.where(column == value)
    if wanted.created_from is not None:
        statement = statement.where(_receipts.created_at >= wanted.created_from)
    if wanted.created_to is not None:
        statement = statement.where(_receipts.created_at < wanted.created_to)
    return statement


def _of(run: RunKey) -> tuple[Any, ...]:
    return _receipts.account_id == run.account_id, _receipts.run_id == run.run_id


def _receipt(row: Any) -> Receipt:
    return Receipt(*row)
