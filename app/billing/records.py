"""The data of billing: receipts, credit balances, sums of usage, and the filters of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from app.billing.payment_mode import PaymentMode
from app.billing.pricing import Charge
from app.ids import new_uuid
from app.usage import SOURCE_SYSTEM, Attribution, Basis, ExecutorType, Origin, TokenUsage, UsageFact

ReceiptBasis: TypeAlias = Literal[Basis, "unpriced", "adjustment"]
"""The basis of a usage fact; or `unpriced`: no price was known, the tokens are recorded and the cost is 0;
or `adjustment`: the cost of an unpriced receipt, charged later."""

GroupBy: TypeAlias = Literal["day", "model", "graph", "key"]


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


@dataclass(frozen=True, slots=True)
class UsageSums:
    """Sums over receipts; each field but `receipts` is a column of receipts and of rollups."""

    receipts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    charged_credits: int = 0
    cache_savings_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Conditions on an account's usage; None matches any value."""

    since: datetime | None = None
    until: datetime | None = None
    """Exclusive."""
    model: str | None = None
    graph_id: str | None = None
    api_key_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class UsageBreakdown:
    """The sums of one group, or of one part of a group.

    `part` is None for a whole group, and for the sum of all parts that are not among the largest.
    """

    group: str
    sums: UsageSums
    part: str | None = None


@dataclass(frozen=True, slots=True)
class CreditBalance:
    """The credit of an account, in credits; the defaults are those of an account never charged."""

    mode: PaymentMode = "postpaid"
    monthly_budget: int | None = None
    granted: int = 0
    adjusted: int = 0
    spent: int = 0
    reserved: int = 0
    month: date | None = None
    """First day of the calendar month (UTC) that `month_spent` belongs to."""
    month_spent: int = 0

    @property
    def balance(self) -> int:
        """Credits granted and adjusted, less those spent."""
        return self.granted + self.adjusted - self.spent

    @property
    def is_overdrawn(self) -> bool:
        """Whether a prepaid account has nothing left; a monthly budget does not count here."""
        return self.mode == "prepaid" and self.balance <= self.reserved

    def spent_this_month(self, now: datetime) -> int:
        """Credits spent in the calendar month (UTC) of `now`."""
        return self.month_spent if self.month == now.astimezone(UTC).date().replace(day=1) else 0

    def available(self, now: datetime) -> int | None:
        """Credits neither spent nor reserved; None without a limit."""
        limits = []
        if self.mode == "prepaid":
            limits.append(self.balance)
        if self.monthly_budget is not None:
            limits.append(self.monthly_budget - self.spent_this_month(now))
        return min(limits) - self.reserved if limits else None


class LedgerEntry(NamedTuple):
    """An entry of the credit ledger; `credits` is signed."""

    kind: str
    credits: int


def _field_names(record: type[NewReceipt | TokenUsage]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record))


def _values(record: TokenUsage | Attribution | Charge) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(record)}
