"""Receipts, sums of their charges, and conditions on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias
from uuid import UUID

from app.billing.prices.price_list import Charge
from app.ids import new_uuid
from app.usage import SOURCE_SYSTEM, Attribution, Basis, ExecutorType, Origin, TokenUsage, UsageFact

ReceiptBasis: TypeAlias = Literal[Basis, "unpriced", "adjustment"]
"""The basis of a usage fact; or `unpriced`: no price was known, the tokens are recorded and the cost is 0;
or `adjustment`: the cost of an unpriced receipt, charged later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReceipt:
    """The charge for one assistant message, before it is stored.

    Its fields are the only declaration of the columns: the table, the INSERT and the reading of rows
    are derived from them.
    """

    id: UUID = field(default_factory=new_uuid)
    source_system: str = SOURCE_SYSTEM
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
    cache_savings_usd: Decimal
    note: str | None

    @classmethod
    def of(cls, fact: UsageFact, charge: Charge, basis: ReceiptBasis) -> "NewReceipt":
        """Combine a usage fact with its charge; parts whose fields are columns are copied whole."""
        return cls(
            **_values(fact.usage),
            **_values(fact.attribution),
            **_values(charge),
            source_reference=fact.source_reference,
            run_id=fact.run.run_id,
            attempt=fact.attempt,
            usage_unit_id=fact.message_id,
            account_id=fact.run.account_id,
            executor_type=fact.executor_type,
            model=fact.model,
            basis=basis,
            output_estimated=fact.output_estimated,
            origin=fact.origin,
            parent_tool_call_id=fact.parent_tool_call_id,
            note=fact.note,
        )

    @property
    def usage(self) -> TokenUsage:
        """The token counts."""
        return TokenUsage(**{name: getattr(self, name) for name in _field_names(TokenUsage)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(NewReceipt):
    """The charge for one assistant message, as stored."""

    created_at: datetime
    """Set by the database."""

    def adjustment(self, charge: Charge, *, source_system: str) -> NewReceipt:
        """The receipt that charges this unpriced one; its token counts are 0, because this one has them."""
        changed = {**_values(TokenUsage()), **_values(charge)}
        kept = {name: getattr(self, name) for name in _field_names(NewReceipt)}
        own = {"id": new_uuid(), "source_system": source_system, "basis": "adjustment"}
        return NewReceipt(**{**kept, **changed, **own})


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The charges of a run so far."""

    receipts: int = 0
    cost_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class ReceiptFilter:
    """Conditions on an account's receipts; None matches any value."""

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
class UnpricedReceipts:
    """Receipts without a price that no adjustment has charged yet."""

    receipts: int
    runs: int
    newest: Sequence[Receipt]


def _field_names(record: type[NewReceipt | TokenUsage]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record))


def _values(record: TokenUsage | Attribution | Charge) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(record)}
