"""What a client is told whose call is refused."""

from datetime import UTC, datetime

import pytest

from app.billing.credit.ledger import InsufficientCredits, MonthlyBudgetExhausted
from app.billing.credit.records import CreditBalance
from app.billing.receipts.journal import JournalUnavailable
from app.runs.external.refusals import CreditUnknown, no_credit, refusal_of

DOLLAR = 10_000_000
NOW = datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
PREPAID = CreditBalance(mode="prepaid", granted=DOLLAR)
NOTHING = "Nothing is left of what this account may spend."
SOME = "This call may cost more than the {} dollars that are left; one with a lower max_tokens may cost less."
RESET = " Its budget starts again on 2027-01-01 at 00:00 UTC."


@pytest.mark.parametrize(
    ("balance", "kind", "sentence"),
    [
        (PREPAID, InsufficientCredits, SOME.format("1.0000")),
        (CreditBalance(mode="prepaid", granted=5, spent=9), InsufficientCredits, NOTHING),
        (
            CreditBalance(monthly_budget=DOLLAR, spent_by_month={"2026-12": DOLLAR // 2}),
            MonthlyBudgetExhausted,
            SOME.format("0.5000") + RESET,
        ),
        (
            CreditBalance(monthly_budget=DOLLAR, spent_by_month={"2026-12": DOLLAR}),
            MonthlyBudgetExhausted,
            NOTHING + RESET,
        ),
        (
            CreditBalance(mode="prepaid", granted=DOLLAR, monthly_budget=2 * DOLLAR),
            InsufficientCredits,
            SOME.format("1.0000"),
        ),
    ],
)
def test_what_is_left_and_when_there_is_more(
    balance: CreditBalance, kind: type[InsufficientCredits], sentence: str
) -> None:
    error = no_credit(balance, NOW)

    assert (type(error), error.detail) == (kind, sentence)


def test_other_reasons_pass() -> None:
    assert type(refusal_of("journal", PREPAID, NOW)) is JournalUnavailable
    assert type(refusal_of("database", PREPAID, NOW)) is CreditUnknown
    assert type(refusal_of("credit", PREPAID, NOW)) is InsufficientCredits
