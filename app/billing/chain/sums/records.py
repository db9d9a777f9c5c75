"""Sums as they are stored, and as they should be."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

BALANCE_COLUMNS = {
    "granted": (1, ("grant",)),
    "adjusted": (1, ("adjustment", "expiry")),
    "spent": (-1, ("debit",)),
    "reserved": (-1, ("reservation", "release")),
}
"""The sign and the kinds of entries of each sum of an account."""


@dataclass(slots=True)
class LedgerSums:
    """The sums of an account's ledger."""

    by_kind: Counter[str] = field(default_factory=Counter)
    debits_by_month: Counter[str] = field(default_factory=Counter)
    """By month of use; negative, as in the ledger."""

    def add(self, kind: str, month: str | None, credits_: int) -> None:
        """Add entries of one kind, and for debits of one month."""
        self.by_kind[kind] += credits_
        if month is not None:
            self.debits_by_month[month] += credits_

    def balance(self) -> dict[str, int]:
        """The columns of `credit_accounts`."""
        return {
            name: sign * sum(self.by_kind[kind] for kind in kinds)
            for name, (sign, kinds) in BALANCE_COLUMNS.items()
        }

    def spent_by_month(self) -> dict[str, int]:
        """The column of `credit_accounts`; a month with nothing but free messages has 0."""
        return {month: -credits_ for month, credits_ in self.debits_by_month.items()}


@dataclass(frozen=True, slots=True)
class WrongSpending:
    """What is spent of a budget in its current window, if it is not the sum of receipts."""

    budget_id: str
    value: str
    recorded: dict[str, Any] | None
    recomputed: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class WrongRollup:
    """A rollup that is not the sum of its receipts; `recorded` or `recomputed` is None if there is none."""

    bucket: str
    model: str
    graph_id: str
    api_key_id: str
    label: str | None
    """Of the sums of receipts with a label; None for those of all."""
    value: str | None
    recorded: dict[str, Any] | None
    recomputed: dict[str, Any] | None
