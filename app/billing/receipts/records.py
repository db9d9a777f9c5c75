"""Receipts, sums of their charges, and conditions on them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Literal, TypeAlias
from uuid import UUID

from app.billing.prices.price_list import Charge
from app.billing.prices.quote import BilledUsage
from app.billing.prices.usage_reading import factor_value
from app.ids import new_uuid
from app.requests.attribution import ANY_LABELS, LabelFilter
from app.usage.records import (
    NOTHING_CHARGED,
    SOURCE_SYSTEM,
    Attribution,
    Basis,
    ChargedUsage,
    ExecutorType,
    MissCause,
    Origin,
    ProviderCall,
    TokenUsage,
    UsageFact,
)

MessageKey: TypeAlias = tuple[UUID, str, int, str]
"""Of the message that a receipt or its adjustment charges."""

ReceiptBasis: TypeAlias = Literal[Basis, "unpriced", "adjustment"]
"""The basis of a usage fact; or `unpriced`: a part of the message has no known price and is not charged;
or `adjustment`: that part of an unpriced receipt, charged later. Receipts in `fenced_receipts` have the basis
`fenced`."""


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
    used_at: datetime
    """When the message began: decides the price, the month's budget, and the bucket of usage reports."""
    requested_model: str | None
    stop_reason: str | None
    inference_geo: str | None
    service_tier: str | None
    speed: str | None
    provider_request_id: str | None
    provider_organization_id: str | None
    provider_workspace_id: str | None
    provider_usage: Mapping[str, Any]
    """The provider's whole usage object."""
    lines: Sequence[Mapping[str, str]]
    """What the cost consists of: see `PriceLine.to_json`."""
    cache_miss: Mapping[str, Any] | None
    """What the provider should have found in its cache, if it did not: the fields of `CacheMiss`."""
    cache_miss_usd: Decimal
    unpriced: Sequence[str]
    """What has no known price, as `name=value`; it is not part of the cost."""
    end_user: str | None
    tags: Mapping[str, str] | None

    @classmethod
    def of(cls, fact: UsageFact, charge: Charge, basis: ReceiptBasis) -> "NewReceipt":
        """Combine a usage fact with its charge; parts whose fields are columns are copied whole."""
        return cls(
            **_values(fact.usage),
            **_values(fact.attribution),
            **_values(fact.call),
            **_charged(charge),
            inference_geo=factor_value(fact.reported.get("inference_geo")),
            service_tier=factor_value(fact.reported.get("service_tier")),
            speed=factor_value(fact.reported.get("speed")),
            provider_usage=fact.reported,
            stop_reason=fact.stop_reason,
            cache_miss=None if fact.cache_miss is None else asdict(fact.cache_miss),
            used_at=fact.at,
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
    def billed(self) -> BilledUsage:
        return BilledUsage(
            self.model,
            self.usage,
            self.provider_usage,
            requested_model=self.requested_model,
            stop_reason=self.stop_reason,
            missed_tokens=self.missed_tokens,
        )

    @property
    def missed_tokens(self) -> int:
        """Tokens that should have been read from the cache."""
        miss = self.cache_miss
        return 0 if miss is None else miss["expected_tokens"] - miss["read_tokens"]

    @property
    def source(self) -> tuple[UUID, str, str]:
        """What identifies the charge of a message: unique."""
        return (self.account_id, self.source_system, self.source_reference)

    @property
    def usage(self) -> TokenUsage:
        return TokenUsage(**{name: getattr(self, name) for name in _field_names(TokenUsage)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(NewReceipt):
    """The charge for one assistant message, as stored."""

    created_at: datetime
    """Set by the database."""

    @property
    def message(self) -> MessageKey:
        """What identifies the message; its adjustments have the same."""
        return self.account_id, self.run_id, self.attempt, self.usage_unit_id

    def adjustment(
        self, charge: Charge, *, source_system: str, earlier: Sequence["Receipt"] = ()
    ) -> NewReceipt:
        """The receipt that makes this one and its `earlier` adjustments cost what `charge` says.

        Its token counts are 0, because this one has them; its lines are those that are new, and with a
        negative quantity those that are no more.
        """
        so_far = [self, *earlier]
        charged = _charged(charge)
        changed = {
            **_values(TokenUsage()),
            **charged,
            "cost_usd": charge.cost_usd - sum(each.cost_usd for each in so_far),
            "charged_credits": charge.charged_credits - sum(each.charged_credits for each in so_far),
            "cache_miss": None,
            "cache_miss_usd": charge.cache_miss_usd - sum(each.cache_miss_usd for each in so_far),
            "cache_savings_usd": charge.cache_savings_usd - sum(each.cache_savings_usd for each in so_far),
            "lines": _changed_lines([line for each in so_far for line in each.lines], charged["lines"]),
        }
        kept = {name: getattr(self, name) for name in _field_names(NewReceipt)}
        own = {"id": new_uuid(), "source_system": source_system, "basis": "adjustment"}
        again = sum(each.source_system == source_system for each in earlier)
        reference = f"{self.source_reference}~{again + 1}" if again else self.source_reference
        return NewReceipt(**{**kept, **changed, **own, "source_reference": reference})


@dataclass(frozen=True, slots=True)
class InsertedReceipts:
    """The ids of the receipts that were new."""

    charged: set[UUID]
    fenced: set[UUID]
    """Not charged: see `fenced_receipts`."""


@dataclass(frozen=True, slots=True)
class ChargedMessage:
    """What is stored of a message."""

    receipt_id: UUID
    is_fenced: bool
    """Not charged: see `fenced_receipts`."""
    usage: TokenUsage


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The charges of a run so far."""

    receipts: int = 0
    cost_usd: Decimal = Decimal(0)
    web_search_requests: int = 0
    web_fetch_requests: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)

    def plus(self, other: "RunTotals") -> "RunTotals":
        return RunTotals(
            self.receipts + other.receipts,
            self.cost_usd + other.cost_usd,
            self.web_search_requests + other.web_search_requests,
            self.web_fetch_requests + other.web_fetch_requests,
            self.usage.plus(other.usage),
        )


NO_CHARGES = RunTotals()


@dataclass(frozen=True, slots=True)
class ReceiptFilter:
    """Conditions on an account's receipts; None matches any value."""

    run_id: str | None = None
    graph_id: str | None = None
    model: str | None = None
    used_from: datetime | None = None
    used_to: datetime | None = None
    """Exclusive."""
    api_key_id: UUID | None = None
    basis: ReceiptBasis | None = None
    origin: Origin | None = None
    miss_cause: MissCause | None = None
    labels: LabelFilter = ANY_LABELS


@dataclass(frozen=True, slots=True)
class UnpricedReceipts:
    """Receipts without a price that no adjustment has charged yet."""

    receipts: int
    runs: int
    newest: Sequence[Receipt]


@cache
def _field_names(record: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(record))


def _charged(charge: Charge) -> dict[str, Any]:
    lines = [line.to_json() for line in charge.lines]
    return {**_values(charge), "lines": lines, "unpriced": list(charge.unpriced)}


def _changed_lines(
    before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]
) -> list[Mapping[str, str]]:
    """The lines that are new, and those that are no more with a negative quantity."""
    changes: list[Mapping[str, str]] = []
    for line in [*map(_taken_back, before), *after]:
        # A line and the same one taken back are none: unchanged, or corrected before.
        if (opposite := _taken_back(line)) in changes:
            changes.remove(opposite)
        else:
            changes.append(dict(line))
    return changes


def _taken_back(line: Mapping[str, str]) -> dict[str, str]:
    return {**line, **{name: _negated(line[name]) for name in ("quantity", "amount_usd")}}


def _negated(number: str) -> str:
    if number == "0":
        return number
    return number.removeprefix("-") if number.startswith("-") else f"-{number}"


def _values(record: TokenUsage | Attribution | ProviderCall | Charge) -> dict[str, Any]:
    kind: type = type(record)
    return {name: getattr(record, name) for name in _field_names(kind)}


class RunCharges:
    """Sums up what the messages of an attempt are charged; a receipt that is made again is counted once."""

    def __init__(self) -> None:
        self._counted: set[str] = set()
        self.total: ChargedUsage = NOTHING_CHARGED

    def add(self, receipt: NewReceipt) -> None:
        if receipt.source_reference not in self._counted:
            self._counted.add(receipt.source_reference)
            self.total = self.total.plus(receipt.usage, receipt.cost_usd)
