"""Which grant pays for what, from the balances of the ledger alone."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from app.billing.credit.expiry.records import CreditEntry, GrantRests

START = datetime(2026, 11, 1, tzinfo=UTC)


class Ledger:
    """An account's entries as they are made."""

    def __init__(self) -> None:
        self.entries: list[CreditEntry] = []
        self.balance = 0

    def grant(self, credits_: int, *, days: int | None = None, priority: int | None = None) -> int:
        expires_at = None if days is None else START + timedelta(days=days)
        return self._enter("grant", credits_, expires_at=expires_at, priority=priority)

    def adjust(self, credits_: int) -> None:
        self._enter("adjustment", credits_)

    def spend(self, credits_: int) -> None:
        self.balance -= credits_

    def expire(self, grant_id: int) -> int:
        (rest,) = self.rests(grant_id)
        self._enter("expiry", -rest, grant_id=grant_id)
        return rest

    def rests(self, *grant_ids: int) -> list[int]:
        """What is left of these grants."""
        rests = GrantRests(self.entries)
        rests.move_to(self.balance)
        return [rests.end(grant_id) for grant_id in grant_ids]

    def _enter(
        self,
        kind: str,
        credits_: int,
        *,
        expires_at: datetime | None = None,
        priority: int | None = None,
        grant_id: int | None = None,
    ) -> int:
        self.balance += credits_
        entry = CreditEntry(
            *(len(self.entries) + 1, kind, credits_, self.balance, expires_at, priority, grant_id)
        )
        self.entries.append(entry)
        return entry.id


def test_credit_is_spent_by_priority_then_expiry_then_age() -> None:
    ledger = Ledger()
    for_ever = ledger.grant(10)
    late, soon = ledger.grant(10, days=60), ledger.grant(10, days=30)
    younger = ledger.grant(10, days=30)
    first, last = ledger.grant(10, priority=-1), ledger.grant(10, days=1, priority=5)
    order = [first, soon, younger, late, for_ever, last]

    for spent, grant in enumerate(order):
        ledger.spend(7)
        left = ledger.rests(*order)
        assert left == [0] * spent + [3] + [10] * (len(order) - spent - 1), grant
        ledger.spend(3)


def test_an_account_that_is_overdrawn_pays_with_what_it_gets() -> None:
    ledger = Ledger()
    ledger.spend(30)
    grant = ledger.grant(100, days=30)
    ledger.spend(20)

    assert ledger.rests(grant) == [50]


def test_what_is_given_back_does_not_expire() -> None:
    ledger = Ledger()
    grant = ledger.grant(100, days=30)
    ledger.spend(40)
    ledger.adjust(25)

    assert ledger.expire(grant) == 60
    assert ledger.balance == 25


def test_credit_from_before_balances_were_entered_is_spent_after_what_expires() -> None:
    ledger = Ledger()
    ledger.balance = 1000
    grant = ledger.grant(100, days=30)
    ledger.spend(60)

    assert (ledger.expire(grant), ledger.balance) == (40, 1000)


@pytest.mark.parametrize("seed", range(20))
def test_every_credit_is_spent_or_expires_once(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    ledger, granted, adjusted, spent, expired = Ledger(), 0, 0, 0, 0
    running: dict[int, int] = {}
    for _ in range(200):
        amount = rng.randint(1, 100)
        match rng.randrange(4):
            case 0:
                terms = {"days": rng.choice([None, 10, 20, 30]), "priority": rng.choice([None, -1, 1])}
                running[ledger.grant(amount, **terms)] = amount
                granted += amount
            case 1:
                ledger.adjust(change := rng.choice([-1, 1]) * amount)
                adjusted += change
            case 2 if running:
                grant = rng.choice(list(running))
                rest = ledger.expire(grant)
                assert 0 <= rest <= running.pop(grant)
                expired += rest
            case _:
                ledger.spend(amount)
                spent += amount

    assert ledger.balance == granted + adjusted - spent - expired
    assert sum(ledger.rests(*running)) <= max(0, granted - expired)
