"""Why a call of a client's own agent is refused, as its client is told."""

from datetime import UTC, datetime, timedelta
from typing import Final

from app.billing.credit.ledger import InsufficientCredits, MonthlyBudgetExhausted, usd
from app.billing.credit.records import CreditBalance
from app.billing.receipts.journal import JournalUnavailable
from app.errors import AppError, Unavailable
from app.gateway.call import Refusal
from app.runs.dispatch.limits import RETRY_AFTER_S

_LONGER_THAN_A_MONTH: Final = timedelta(days=32)


class CreditUnknown(Unavailable):
    """The account's credit cannot be checked now; try again later."""


def refusal_of(reason: Refusal, balance: CreditBalance, now: datetime) -> AppError:
    """The error for a call that was refused for this reason."""
    match reason:
        case "credit":
            return no_credit(balance, now)
        case "journal":
            return JournalUnavailable(retry_after_s=RETRY_AFTER_S)
        case _:
            return CreditUnknown(retry_after_s=RETRY_AFTER_S)


def no_credit(balance: CreditBalance, now: datetime) -> InsufficientCredits:
    """The error for a call that may cost more than the account may spend now."""
    left = max(0, balance.available(now) or 0)
    if left:
        sentence = (
            f"This call may cost more than the {usd(left):.4f} dollars that are left; one with a lower "
            "max_tokens may cost less."
        )
    else:
        sentence = "Nothing is left of what this account may spend."
    budget = balance.monthly_budget
    if budget is None or (
        balance.mode == "prepaid" and balance.balance < budget - balance.spent_this_month(now)
    ):
        return InsufficientCredits(sentence)
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    resets_at = (first + _LONGER_THAN_A_MONTH).replace(day=1)
    return MonthlyBudgetExhausted(f"{sentence} Its budget starts again on {resets_at:%Y-%m-%d} at 00:00 UTC.")
