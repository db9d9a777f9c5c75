"""JSON of an account's credit: credits as integers, dollars as decimal strings."""

from datetime import UTC, datetime

from app.billing.credit.ledger import usd
from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.records import CreditBalance
from app.http.response_model import Money, ResponseModel


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

    @classmethod
    def of(cls, credit: CreditBalance) -> "BalanceResponse":
        """Build from an account's credit."""
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
    }
