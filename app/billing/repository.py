"""The SQL of charge receipts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias
from uuid import UUID

from sqlalchemy import exists, func, select, text

from app.billing.pricing import Charge
from app.billing.tables import charge_receipts
from app.db import Reader, Transaction
from app.ids import AccountId, ApiKeyId, MessageId, RunId, RunKey, new_uuid
from app.usage import SOURCE_SYSTEM, Attribution, Basis, ExecutorType, Origin, TokenUsage, UsageFact

_receipts = charge_receipts.c

ReceiptBasis: TypeAlias = Literal[Basis, "unpriced", "adjustment"]
"""A fact's, or `unpriced`: no price was known, the tokens are kept; `adjustment`: its price, later."""


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
    executor_type: ExecutorType
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    web_search_requests: int
    cost_usd: Decimal
    charged_credits: int
    price_version: str
    basis: ReceiptBasis
    output_estimated: bool
    origin: Origin
    parent_tool_call_id: str | None
    ingress_request_id: str | None
    created_at: datetime
    cache_savings_usd: Decimal
    note: str | None


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What a run has been charged so far."""

    receipts: int = 0
    cost_usd: Decimal = Decimal(0)


_INSERT = text(
    """
    WITH inserted AS (
        INSERT INTO charge_receipts (
            id, source_system, source_reference, run_id, attempt, usage_unit_id, account_id, api_key_id,
            graph_id, executor_type, model, input_tokens, output_tokens, cache_read_tokens,
            cache_write_5m_tokens, cache_write_1h_tokens, web_search_requests, cost_usd, charged_credits,
            price_version, basis, output_estimated, origin, parent_tool_call_id, ingress_request_id,
            cache_savings_usd, note, created_at)
        SELECT *, clock_timestamp() FROM unnest(
            CAST(:id AS uuid[]), CAST(:source_system AS text[]), CAST(:source_reference AS text[]),
            CAST(:run_id AS text[]), CAST(:attempt AS int[]), CAST(:usage_unit_id AS text[]),
            CAST(:account_id AS uuid[]), CAST(:api_key_id AS uuid[]), CAST(:graph_id AS text[]),
            CAST(:executor_type AS text[]), CAST(:model AS text[]), CAST(:input_tokens AS bigint[]),
            CAST(:output_tokens AS bigint[]), CAST(:cache_read_tokens AS bigint[]),
            CAST(:cache_write_5m_tokens AS bigint[]), CAST(:cache_write_1h_tokens AS bigint[]),
            CAST(:web_search_requests AS bigint[]), CAST(:cost_usd AS numeric[]),
            CAST(:charged_credits AS bigint[]), CAST(:price_version AS text[]), CAST(:basis AS text[]),
            CAST(:output_estimated AS boolean[]), CAST(:origin AS text[]),
            CAST(:parent_tool_call_id AS text[]), CAST(:ingress_request_id AS text[]),
            CAST(:cache_savings_usd AS numeric[]), CAST(:note AS text[]))
        ON CONFLICT ON CONSTRAINT uq_charge_receipts_source DO NOTHING
        RETURNING id, account_id, run_id, source_reference, charged_credits
    ), debited AS (
        INSERT INTO credit_ledger (account_id, kind, credits, receipt_id, run_id, created_at)
        SELECT account_id, 'debit', -charged_credits, id, run_id, clock_timestamp() FROM inserted
    )
    SELECT id FROM inserted
    """,
)
"""Receipts and their debits, in one statement; sums follow by trigger."""


@dataclass(frozen=True, slots=True)
class NewReceipt:
    """A fact and what it is charged."""

    fact: UsageFact
    charge: Charge
    basis: ReceiptBasis
    source_system: str = SOURCE_SYSTEM


async def insert_receipts(tx: Transaction, receipts: Sequence[NewReceipt]) -> int:
    """Insert receipts and debit them; returns how many were not there already."""
    columns = zip(*(_values(receipt) for receipt in receipts), strict=True)
    found = await tx.execute(_INSERT, dict(zip(_INSERTED, (list(column) for column in columns), strict=True)))
    return len(found.all())


_INSERTED = (
    "id",
    "source_system",
    "source_reference",
    "run_id",
    "attempt",
    "usage_unit_id",
    "account_id",
    "api_key_id",
    "graph_id",
    "executor_type",
    "model",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "web_search_requests",
    "cost_usd",
    "charged_credits",
    "price_version",
    "basis",
    "output_estimated",
    "origin",
    "parent_tool_call_id",
    "ingress_request_id",
    "cache_savings_usd",
    "note",
)


def _values(receipt: NewReceipt) -> tuple[Any, ...]:
    """One row of `_INSERTED`."""
    fact, charge = receipt.fact, receipt.charge
    usage, attribution = fact.usage, fact.attribution
    return (
        new_uuid(),
        receipt.source_system,
        fact.source_reference,
        fact.run.run_id,
        fact.attempt,
        fact.message_id,
        fact.run.account_id,
        attribution.api_key_id,
        attribution.graph_id,
        fact.executor_type,
        fact.model,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.web_search_requests,
        charge.cost_usd,
        charge.charged_credits,
        charge.price_version,
        receipt.basis,
        fact.output_estimated,
        fact.origin,
        fact.parent_tool_call_id,
        attribution.ingress_request_id,
        charge.cache_savings_usd,
        fact.note,
    )


async def unpriced_receipts(reader: Reader, *, adjusted_by: str) -> list[UsageFact]:
    """The facts of receipts without a price that were not adjusted since."""
    later = charge_receipts.alias()
    statement = select(charge_receipts).where(
        _receipts.basis == "unpriced",
        ~exists().where(
            later.c.account_id == _receipts.account_id,
            later.c.source_system == adjusted_by,
            later.c.source_reference == _receipts.source_reference,
        ),
    )
    return [_fact(receipt_of(row)) for row in await reader.execute(statement)]


async def receipts_of_run(reader: Reader, run: RunKey) -> list[Receipt]:
    """A run's receipts, oldest first."""
    statement = select(charge_receipts).where(*_of(run)).order_by(_receipts.created_at, _receipts.id)
    return [receipt_of(row) for row in await reader.execute(statement)]


async def totals_of_runs(
    reader: Reader,
    account_id: AccountId,
    run_ids: Sequence[str],
) -> dict[str, RunTotals]:
    """What these runs of an account have been charged; runs without receipts are left out."""
    statement = (
        select(
            _receipts.run_id,
            func.count().filter(_receipts.basis != "adjustment"),
            func.sum(_receipts.cost_usd),
        )
        .where(_receipts.account_id == account_id, _receipts.run_id.in_(run_ids))
        .group_by(_receipts.run_id)
    )
    return {run_id: RunTotals(*sums) for run_id, *sums in await reader.execute(statement)}


def _of(run: RunKey) -> tuple[Any, ...]:
    return _receipts.account_id == run.account_id, _receipts.run_id == run.run_id


def _fact(receipt: Receipt) -> UsageFact:
    return UsageFact(
        run=RunKey(AccountId(receipt.account_id), RunId(receipt.run_id)),
        attempt=receipt.attempt,
        message_id=MessageId(receipt.usage_unit_id),
        attribution=Attribution(ApiKeyId(receipt.api_key_id), receipt.graph_id, receipt.ingress_request_id),
        model=receipt.model,
        usage=TokenUsage(
            input_tokens=receipt.input_tokens,
            output_tokens=receipt.output_tokens,
            cache_read_tokens=receipt.cache_read_tokens,
            cache_write_5m_tokens=receipt.cache_write_5m_tokens,
            cache_write_1h_tokens=receipt.cache_write_1h_tokens,
            web_search_requests=receipt.web_search_requests,
        ),
        executor_type=receipt.executor_type,
        output_estimated=receipt.output_estimated,
        origin=receipt.origin,
        parent_tool_call_id=receipt.parent_tool_call_id,
        note=receipt.note,
        at=receipt.created_at,
    )


def receipt_of(row: Any) -> Receipt:
    """Read a row of `charge_receipts`."""
    return Receipt(*row)
