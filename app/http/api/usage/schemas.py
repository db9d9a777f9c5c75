"""The JSON of usage and credit: tokens and credits as integers, dollars as decimal strings."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from app.auth.repository import AccountRecord
from app.billing.ledger import AccountTerms, usd
from app.billing.ledger_repository import CreditBalance
from app.billing.mode import Mode
from app.billing.pricing import CREDITS_PER_DOLLAR
from app.billing.reports import UsageBreakdown, UsageQuery
from app.billing.usage_repository import GroupBy, UsageSums
from app.http.parameters import NEVER_NULL
from app.http.schemas import Moment, Money, ResponseModel
from app.ids import AccountId
from app.requests import ABOVE_ZERO, Dollars, InputModel

MOST_CREDITS = 10**17
"""Ten billion dollars, a power of ten: JSON readers that only know doubles see the same bound."""


class UsageResponse(ResponseModel):
    """What was used and charged."""

    receipts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: Annotated[int, Field(alias="cacheWrite5mTokens")] = 0
    cache_write_1h_tokens: Annotated[int, Field(alias="cacheWrite1hTokens")] = 0
    cost_usd: Money = Decimal(0)
    charged_credits: int = 0
    cache_savings_usd: Money = Decimal(0)
    """What cache reads saved against plain input, at the provider's price."""

    @classmethod
    def total(cls, found: Sequence[UsageBreakdown]) -> Self:
        """The sum of all groups."""
        rows = [asdict(each.sums) for each in found]
        return cls(**{name: sum(row[name] for row in rows) for name in UsageSums.__dataclass_fields__})


class _Grouped(ResponseModel):
    group: str


class UsageGroup(UsageResponse, _Grouped):
    """The sums of one group: a day, a model, a graph or an API key."""


class _Split(ResponseModel):
    split: str | None


class UsagePart(UsageResponse, _Split, _Grouped):
    """The sums of a part of a group; `split` is null for all that is not in the top."""


class UsageReportResponse(ResponseModel):
    """Sums by group and in all."""

    group_by: GroupBy | None
    split_by: GroupBy | None
    time_zone: str
    items: Sequence[UsagePart] | Sequence[UsageGroup]
    next_cursor: str | None = None
    total: UsageResponse

    @classmethod
    def of(cls, query: UsageQuery, found: Sequence[UsageBreakdown]) -> "UsageReportResponse":
        """Show what was found."""
        return cls(
            group_by=query.group_by,
            split_by=query.split_by,
            time_zone=query.time_zone,
            items=_items(query, found),
            total=UsageResponse.total(found),
        )


def _items(query: UsageQuery, found: Sequence[UsageBreakdown]) -> Sequence[UsagePart] | Sequence[UsageGroup]:
    if query.split_by is not None:
        return [UsagePart(group=each.group, split=each.part, **asdict(each.sums)) for each in found]
    if query.group_by is not None:
        return [UsageGroup(group=each.group, **asdict(each.sums)) for each in found]
    return []


class BalanceResponse(ResponseModel):
    """An account's credit. `available` is null where there is no limit."""

    mode: Mode
    granted: int
    adjusted: int
    spent: int
    reserved: int
    left: int
    available: int | None
    monthly_budget: int | None
    month_spent: int
    granted_usd: Money
    spent_usd: Money
    left_usd: Money

    @classmethod
    def of(cls, credit: CreditBalance) -> "BalanceResponse":
        """Show an account's credit."""
        return cls(**_balance(credit))


class AccountResponse(ResponseModel):
    """An account."""

    id: AccountId
    name: str
    created_at: Moment


class _OfAccount(ResponseModel):
    account: str


class AccountBalance(BalanceResponse, _OfAccount):
    """An account and its credit."""

    @classmethod
    def of_account(cls, account: AccountRecord, credit: CreditBalance) -> "AccountBalance":
        """Show an account's credit."""
        return cls(account=account.name, **_balance(credit))


def _is_whole_credits(dollars: Decimal) -> Decimal:
    amount = dollars * CREDITS_PER_DOLLAR
    if amount % 1 or abs(amount) >= MOST_CREDITS:
        message = f"must have at most 7 decimals and be below {MOST_CREDITS // CREDITS_PER_DOLLAR} dollars"
        raise ValueError(message)
    return dollars


WholeCredits = Annotated[Dollars, AfterValidator(_is_whole_credits)]


_NOT_NEGATIVE = {"anyOf": [*ABOVE_ZERO["anyOf"], {"enum": [0, "0"]}]}
_EITHER_SIGN = {
    "anyOf": [
        {"type": "string", "pattern": r"^-?([1-9][0-9]{0,9}(\.[0-9]{1,7})?|0\.[0-9]{0,6}[1-9])$"},
        {"type": "integer", "not": {"const": 0}, "minimum": -9_999_999_999, "maximum": 9_999_999_999},
    ]
}
"""Dollars, for readers of the OpenAPI document."""

_Credits = Annotated[int, Field(strict=True, ge=-MOST_CREDITS, le=MOST_CREDITS)]
_GRANTED = {"type": "integer", "minimum": 1, "maximum": MOST_CREDITS}
_ADJUSTED = {"type": "integer", "not": {"const": 0}, "minimum": -MOST_CREDITS, "maximum": MOST_CREDITS}


class _Amount(InputModel):
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["usd"]}, {"required": ["credits"]}]},
    )

    usd: WholeCredits | None = None
    credits: _Credits | None = None
    note: Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")] | None = None

    @model_validator(mode="after")
    def _one_amount(self) -> Self:
        if (self.usd is None) == (self.credits is None) or {"usd", "credits"} <= self.model_fields_set:
            message = "give either usd or credits"
            raise ValueError(message)
        return self

    @property
    def amount(self) -> int:
        """In credits."""
        if self.usd is not None:
            return int(self.usd * CREDITS_PER_DOLLAR)
        return self.credits or 0


class Grant(_Amount):
    """Credit to add."""

    usd: Annotated[Annotated[WholeCredits, WithJsonSchema(ABOVE_ZERO)] | None, NEVER_NULL] = None
    credits: Annotated[Annotated[_Credits, WithJsonSchema(_GRANTED)] | None, NEVER_NULL] = None

    @field_validator("usd", "credits")
    @classmethod
    def _adds(cls, amount: Decimal | None) -> Decimal | None:
        if amount is not None and amount <= 0:
            message = "must be above zero; to take credit away, post an adjustment"
            raise ValueError(message)
        return amount


class Adjustment(_Amount):
    """A correction of either sign."""

    usd: Annotated[Annotated[WholeCredits, WithJsonSchema(_EITHER_SIGN)] | None, NEVER_NULL] = None
    credits: Annotated[Annotated[_Credits, WithJsonSchema(_ADJUSTED)] | None, NEVER_NULL] = None

    note: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]

    @field_validator("usd", "credits")
    @classmethod
    def _changes_something(cls, amount: Decimal | None) -> Decimal | None:
        if amount == 0:
            message = "must not be zero"
            raise ValueError(message)
        return amount


class TermsChange(InputModel):
    """How an account pays; what is left out stays as it is."""

    mode: Annotated[Mode | None, NEVER_NULL] = None
    monthly_budget_usd: Annotated[WholeCredits, Field(ge=0), WithJsonSchema(_NOT_NEGATIVE)] | None = None

    @field_validator("mode")
    @classmethod
    def _is_a_mode(cls, mode: Mode | None) -> Mode | None:
        # Only what was sent comes here: there is no paying in no way.
        if mode is None:
            message = "must be 'prepaid' or 'postpaid'"
            raise ValueError(message)
        return mode

    def applied_to(self, terms: AccountTerms) -> AccountTerms:
        """The terms with what was sent in place."""
        budget = terms.monthly_budget
        if "monthly_budget_usd" in self.model_fields_set:
            dollars = self.monthly_budget_usd
            budget = None if dollars is None else int(dollars * CREDITS_PER_DOLLAR)
        return AccountTerms(self.mode or terms.mode, budget)


def _balance(credit: CreditBalance) -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "mode": credit.mode,
        "granted": credit.granted,
        "adjusted": credit.adjusted,
        "spent": credit.spent,
        "reserved": credit.reserved,
        "left": credit.balance,
        "available": credit.available(now),
        "monthly_budget": credit.monthly_budget,
        "month_spent": credit.spent_this_month(now),
        "granted_usd": usd(credit.granted),
        "spent_usd": usd(credit.spent),
        "left_usd": usd(credit.balance),
    }
