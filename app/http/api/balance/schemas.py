"""JSON of an account's credit: credits as integers, dollars as decimal strings."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator

from app.billing.credit.ledger import usd
from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.records import CreditBalance, TopUp
from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from app.http.response_model import Moment, Money, ResponseModel
from app.requests.dollars import ABOVE_ZERO, Dollars
from app.requests.wire_models import InputModel

MAX_CREDITS = 10**17
"""Ten billion dollars, a power of ten: JSON parsers that use doubles see the same bound."""


def _is_whole_credits(dollars: Decimal) -> Decimal:
    amount = dollars * CREDITS_PER_DOLLAR
    if amount % 1 or abs(amount) >= MAX_CREDITS:
        message = f"must have at most 7 decimals and be below {MAX_CREDITS // CREDITS_PER_DOLLAR} dollars"
        raise ValueError(message)
    return dollars


WholeCredits = Annotated[Dollars, AfterValidator(_is_whole_credits)]
_Amount = Annotated[WholeCredits, WithJsonSchema(ABOVE_ZERO)]


class TopUpRequest(InputModel):
    """When an account requests more credit."""

    below_usd: _Amount
    amount_usd: _Amount
    per_day: Annotated[int, Field(strict=True, ge=1, le=24)] = 1

    @field_validator("below_usd", "amount_usd")
    @classmethod
    def _is_positive(cls, amount: Decimal) -> Decimal:
        if amount <= 0:
            raise ValueError("must be above zero")
        return amount

    @property
    def top_up(self) -> TopUp:
        """It in credits."""
        below, amount = (int(each * CREDITS_PER_DOLLAR) for each in (self.below_usd, self.amount_usd))
        return TopUp(below, amount, self.per_day)


class TopUpResponse(ResponseModel):
    """When an account requests more credit, and when it last did."""

    below_usd: Money
    amount_usd: Money
    per_day: int
    requested_at: Moment | None


class BalanceResponse(ResponseModel):
    """An account's credit. `available` is null for an account that is not prepaid."""

    mode: PaymentMode
    granted: int
    adjusted: int
    spent: int
    reserved: int
    left: int
    available: int | None
    month_spent: int
    granted_usd: Money
    spent_usd: Money
    left_usd: Money
    top_up: TopUpResponse | None

    @classmethod
    def of(cls, credit: CreditBalance) -> "BalanceResponse":
        return cls.built_from(credit, **computed_fields(credit))


def computed_fields(credit: CreditBalance) -> dict[str, object]:
    """The fields of a `BalanceResponse` that are not those of the credit."""
    now = datetime.now(UTC)
    return {
        "left": credit.balance,
        "available": credit.available,
        "month_spent": credit.spent_this_month(now),
        "granted_usd": usd(credit.granted),
        "spent_usd": usd(credit.spent),
        "left_usd": usd(credit.balance),
        "top_up": _top_up(credit),
    }


def _top_up(credit: CreditBalance) -> TopUpResponse | None:
    if (terms := credit.top_up) is None:
        return None
    return TopUpResponse(
        below_usd=usd(terms.below),
        amount_usd=usd(terms.credits),
        per_day=terms.per_day,
        requested_at=credit.top_up_requested_at,
    )
