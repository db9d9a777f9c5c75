"""What a client is told whose call is refused."""

from datetime import UTC, datetime

import pytest

from app.billing.credit.ledger import BudgetSpent, InsufficientCredits
from app.billing.credit.records import CreditBalance
from app.billing.receipts.journal import JournalUnavailable
from app.gateway.channel import CallRefused
from app.requests.outcome import SpentBudget
from app.runs.external.refusals import CreditUnknown, no_credit, refusal_of

DOLLAR = 10_000_000
PREPAID = CreditBalance(mode="prepaid", granted=DOLLAR)
NOTHING = "Nothing is left of what this account may spend."
SOME = "This call may cost more than {}; one with a lower max_tokens may cost less."
RESETS_AT = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("balance", "sentence"),
    [
        (PREPAID, SOME.format("the 1.0000 dollars that are left")),
        (CreditBalance(mode="prepaid", granted=5, spent=9), NOTHING),
        (CreditBalance(mode="prepaid", granted=DOLLAR, reserved=DOLLAR), NOTHING),
    ],
)
def test_what_is_left(balance: CreditBalance, sentence: str) -> None:
    assert no_credit(balance).detail == sentence


@pytest.mark.parametrize(
    ("resets_at", "when"), [(None, ""), (RESETS_AT, " It starts again at 2027-01-01T00:00:00Z.")]
)
def test_a_budget_and_when_it_starts_again(resets_at: datetime | None, when: str) -> None:
    error = refusal_of(CallRefused("account_budget", SpentBudget("house", resets_at)), PREPAID)

    assert isinstance(error, BudgetSpent)
    assert error.detail == SOME.format("what is left of the budget house") + when


def test_other_reasons_pass() -> None:
    assert type(refusal_of(CallRefused("journal"), PREPAID)) is JournalUnavailable
    assert type(refusal_of(CallRefused("database"), PREPAID)) is CreditUnknown
    assert type(refusal_of(CallRefused("credit"), PREPAID)) is InsufficientCredits
