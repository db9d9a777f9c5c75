"""What the provider reports, what receipts record, and the differences between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from app.billing.prices.model_names import undated_name
from app.billing.prices.price_list import rounded
from app.ids import AccountId, new_uuid
from app.usage.records import TokenUsage

KINDS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "web_search_requests")
"""What is compared, in the order of `Counts`: tokens, and then searches."""

Counts: TypeAlias = tuple[int, ...]
"""Tokens and web searches by `KINDS`; differences have signs."""

NOTHING: Counts = (0,) * len(KINDS)

LONG_PROMPT = 200_000
"""The provider's reports have one context window up to so many prompt tokens, and one above."""
SHORT_CONTEXT, LONG_CONTEXT = "0-200k", "200k-1M"

NO_MODEL = "none"
"""Usage that the provider attributes to no model."""

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Cause: TypeAlias = Literal[
    "shifted",
    "foreign_key",
    "estimated",
    "refused",
    "probe",
    "unpriced",
    "lost_receipt",
    "unknown_caller",
    "no_receipt",
    "doubled_receipt",
    "not_reported",
    "different_counts",
    "other_dimension",
    "charged_price",
]
"""Why reports and receipts differ; docs/BILLING.md describes each."""

EXPLAINED: frozenset[Cause] = frozenset(
    {"shifted", "foreign_key", "estimated", "refused", "probe", "unpriced"}
)
"""Causes that need no action."""

CostSource: TypeAlias = Literal["analytics", "cost_report"]
"""The report that prices were audited by: `analytics` has list prices, `cost_report` may have discounts."""


class Dimensions(NamedTuple):
    """What the provider's report is grouped by, besides time and key."""

    model: str
    """Without its release date, so that aliases and dated ids are the same."""
    inference_geo: str = "not_available"
    service_tier: str = "standard"
    speed: str = "standard"
    context_window: str = SHORT_CONTEXT


class Window(NamedTuple):
    """A time span; the end is exclusive."""

    start: datetime
    end: datetime

    def widened(self, by: timedelta) -> "Window":
        """The same span with a margin on both sides."""
        return Window(self.start - by, self.end + by)

    def contains(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    def days(self) -> "list[Window]":
        """Consecutive parts of a day at most; they end at midnight UTC."""
        parts, start = [], self.start
        while start < self.end:
            end = min(self.end, floor_to(start, DAY) + DAY)
            parts.append(Window(start, end))
            start = end
        return parts


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """One row of the provider's usage report."""

    at: datetime
    """The start of its bucket."""
    api_key_id: str | None
    dimensions: Dimensions
    counts: Counts


@dataclass(frozen=True, slots=True)
class ReportedRequests:
    """One row of the provider's analytics: how many requests, and for which user profile."""

    at: datetime
    api_key_id: str | None
    model: str
    profile_id: str | None
    requests: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class ListedCost:
    """What the provider charges for some tokens, at its prices."""

    at: datetime
    ends_at: datetime
    dimensions: Dimensions
    kind: str
    tokens: int
    cost_usd: Decimal
    step_usd: Decimal
    """The last digit of the amount: it is not more precise."""


@dataclass(frozen=True, slots=True)
class RecordedUsage:
    """The sum of some receipts, of one account and one minute."""

    began: datetime
    """The minute in which the messages began."""
    ended: datetime
    """The minute in which the receipts were stored, which is usually when the messages ended."""
    account_id: AccountId
    dimensions: Dimensions
    counts: Counts
    receipts: int
    cost_usd: Decimal
    """What was charged for these counts."""
    served_model: str
    """The name that the provider gave, with its release date."""
    requested_model: str | None = None
    estimated_output: bool = False
    """The messages were cut off: their output is an estimate."""
    unanswered: bool = False
    """The prompts were never answered: all numbers are estimates."""
    refused: bool = False
    """The provider refused before any output, and charges nothing."""
    unpriced: bool = False
    """A part has no known price and is not charged yet."""


@dataclass(frozen=True, slots=True)
class CallCounts:
    """How many calls left through the gateway in a minute, by requested model."""

    at: datetime
    model: str
    """Without its release date."""
    sent: int
    refused: int
    """The provider responded with an error."""


@dataclass(frozen=True, slots=True)
class UnbilledMessage:
    """A message that no account is charged for, such as the probe of `doctor`."""

    at: datetime
    model: str
    """Without its release date."""
    counts: Counts


@dataclass(frozen=True, slots=True)
class Books:
    """Everything known of a window and its margin."""

    window: Window
    reported: Sequence[ReportedUsage]
    recorded: Sequence[RecordedUsage]
    own_keys: frozenset[str]
    """The provider's ids of the keys that the gateway uses."""
    requests: Sequence[ReportedRequests] | None = None
    """None: the provider does not report them."""
    calls: Sequence[CallCounts] = ()
    unbilled: Sequence[UnbilledMessage] = ()
    profiles: Mapping[str, AccountId] = field(default_factory=dict)
    """The accounts by the provider's ids of their user profiles."""

    @property
    def own_reported(self) -> list[ReportedUsage]:
        """The report of our keys."""
        return [row for row in self.reported if row.api_key_id in self.own_keys]


@dataclass(frozen=True, slots=True)
class EqualReceipt:
    """A receipt with exactly the counts of a difference."""

    id: UUID
    account_id: UUID
    source_reference: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A located difference between report and receipts; counts are reported minus recorded."""

    starting_at: datetime
    ending_at: datetime
    dimensions: Dimensions
    cause: Cause
    counts: Counts
    amount_usd: Decimal | None
    """The difference at our prices; None where there is no price."""
    lines: Sequence[Mapping[str, str]] = ()
    """The amount by kind: `kind`, `quantity`, `unit_price_usd`, `amount_usd`."""
    api_key_id: str | None = None
    """The provider's id of another program's key."""
    account_id: AccountId | None = None
    """The account concerned, if that is known."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    id: UUID = field(default_factory=new_uuid)

    @property
    def identity(self) -> object:
        """Equal for the same difference, found by different comparisons."""
        place = self.starting_at, self.ending_at, self.dimensions, self.api_key_id, self.account_id
        return place, self.cause, self.counts, self.amount_usd

    @property
    def is_explained(self) -> bool:
        """Whether it needs no action."""
        return self.cause in EXPLAINED


@dataclass(frozen=True, slots=True)
class PriceDifference:
    """An hour in which the provider's unit price is not ours."""

    starting_at: datetime
    ending_at: datetime
    dimensions: Dimensions
    kind: str
    tokens: int
    provider_unit_usd: Decimal
    own_unit_usd: Decimal | None
    price_version: str
    amount_usd: Decimal
    """The proposed adjustment: these tokens at the provider's price minus at ours."""
    source: CostSource
    id: UUID = field(default_factory=new_uuid)

    @property
    def identity(self) -> object:
        """Equal for the same difference, found by different comparisons."""
        place = self.starting_at, self.ending_at, self.dimensions, self.kind, self.source
        return place, self.tokens, self.own_unit_usd, self.price_version, rounded(self.amount_usd)


@dataclass(frozen=True, slots=True)
class ReconciledModel:
    """The sums of one model."""

    model: str
    reported_usd: Decimal
    """The provider's counts of our keys, at our prices."""
    recorded_usd: Decimal
    """What the receipts charge, before the markup."""
    unexplained_usd: Decimal
    foreign_usd: Decimal
    """The provider's counts of other keys, at our prices; part of no other sum."""
    listed_usd: Decimal | None
    """What the provider charges for all keys; None if its cost reports cannot be read."""
    receipts: int
    differences: int
    unexplained: int

    @property
    def residual_usd(self) -> Decimal:
        """What the provider reports more than the receipts record, at our prices."""
        return self.reported_usd - self.recorded_usd

    @property
    def explained_usd(self) -> Decimal:
        return self.residual_usd - self.unexplained_usd


@dataclass(frozen=True, slots=True)
class ReconciledHour(ReconciledModel):
    """The sums of one hour and model."""

    hour: datetime


@dataclass(frozen=True, slots=True)
class ReconciledWindow:
    """The result of comparing one window."""

    window: Window
    hours: Sequence[ReconciledHour]
    differences: Sequence[Difference]
    prices: Sequence[PriceDifference]
    prices_audited: bool
    """Whether the provider's costs could be read; if not, earlier audits stay valid."""
    summary: Mapping[str, Any]
    """How it was compared: the moment that buckets follow, which reports were readable."""


def normal_dimensions(
    model: str | None,
    *,
    inference_geo: str | None,
    service_tier: str | None,
    speed: str | None,
    context_window: str | None,
) -> Dimensions:
    """Dimensions with the names that both sides use."""
    return Dimensions(
        undated_name(model) if model else NO_MODEL,
        inference_geo or "not_available",
        service_tier or "standard",
        speed or "standard",
        context_window or SHORT_CONTEXT,
    )


def floor_to(moment: datetime, width: timedelta) -> datetime:
    """The start of the bucket that contains a moment."""
    return moment - (moment - _EPOCH) % width


def counts_of_usage(usage: TokenUsage) -> Counts:
    tokens = (getattr(usage, f"{kind}_tokens") for kind in KINDS[:-1])
    return (*tokens, usage.web_search_requests)


def by_kind(counts: Counts) -> dict[str, int]:
    return dict(zip(KINDS, counts, strict=True))


def counts_from(json: Mapping[str, int]) -> Counts:
    return tuple(json[kind] for kind in KINDS)


def plus(one: Counts, other: Counts) -> Counts:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def minus(one: Counts, other: Counts) -> Counts:
    return tuple(a - b for a, b in zip(one, other, strict=True))


def total(counts: Sequence[Counts]) -> Counts:
    summed = NOTHING
    for each in counts:
        summed = plus(summed, each)
    return summed
