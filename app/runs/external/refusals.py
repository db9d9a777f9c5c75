"""Why a call of a client's own agent is refused, as its client is told."""

from app.billing.credit.ledger import BudgetSpent, InsufficientCredits, usd
from app.billing.credit.records import CreditBalance
from app.billing.receipts.journal import JournalUnavailable
from app.errors import AppError, Unavailable
from app.gateway.channel import CallRefused
from app.requests.outcome import SpentBudget
from app.runs.dispatch.limits import RETRY_AFTER_S


class CreditUnknown(Unavailable):
    """The account's credit cannot be checked now; try again later."""


def refusal_of(refused: CallRefused, balance: CreditBalance) -> AppError:
    """The error for a call that was refused."""
    if refused.budget is not None:
        return _no_budget(refused.budget)
    match refused.refusal:
        case "credit":
            return no_credit(balance)
        case "journal":
            return JournalUnavailable(retry_after_s=RETRY_AFTER_S)
        case _:
            return CreditUnknown(retry_after_s=RETRY_AFTER_S)


def no_credit(balance: CreditBalance) -> InsufficientCredits:
    """The error for a call that may cost more than the account may spend now."""
    left = max(0, balance.available or 0)
    if not left:
        return InsufficientCredits("Nothing is left of what this account may spend.")
    return InsufficientCredits(_too_much(f"the {usd(left):.4f} dollars that are left"))


def _no_budget(budget: SpentBudget) -> BudgetSpent:
    resets = f" It starts again at {budget.resets}." if budget.resets_at else ""
    return BudgetSpent(budget, _too_much(f"what is left of the budget {budget.id}") + resets)


def _too_much(left: str) -> str:
    return f"This call may cost more than {left}; one with a lower max_tokens may cost less."
