"""What is left of each grant: pure, from the entries that change credit and the balances with them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from app.billing.credit.records import DEFAULT_PRIORITY

_NEVER = datetime.max.replace(tzinfo=UTC)


class CreditEntry(NamedTuple):
    """A grant, an adjustment, or an expiry."""

    id: int
    kind: str
    credits: int
    balance: int
    """With this entry."""
    expires_at: datetime | None = None
    priority: int | None = None
    grant_id: int | None = None
    """Of an expiry."""


class _Order(NamedTuple):
    priority: int
    expires_at: datetime
    id: int


_OTHER = _Order(DEFAULT_PRIORITY, _NEVER, 0)
"""Credit without a grant of its own: adjustments, refunds, and what was granted before grants had terms."""


class GrantRests:
    """What is left of each grant, and of other credit.

    What was spent between two entries follows from their balances, so debits need not be read.
    """

    def __init__(self, entries: Iterable[CreditEntry]) -> None:
        """`entries` of an account, the oldest first."""
        self._rests: dict[_Order, int] = {}
        self._orders: dict[int, _Order] = {}
        self._debt = 0
        for entry in entries:
            self.move_to(entry.balance - entry.credits)
            if entry.kind == "grant":
                order = _Order(entry.priority or DEFAULT_PRIORITY, entry.expires_at or _NEVER, entry.id)
                self._orders[entry.id] = order
                self._add(order, entry.credits)
            elif entry.grant_id is not None:
                self.end(entry.grant_id)
            self.move_to(entry.balance)

    def end(self, grant_id: int) -> int:
        """Take what is left of a grant."""
        return self._rests.pop(self._orders[grant_id])

    def move_to(self, balance: int) -> None:
        """Spend, or give back, what the balance differs by."""
        change = balance - sum(self._rests.values()) + self._debt
        if change >= 0:
            self._add(_OTHER, change)
        else:
            self._take(-change)

    def _add(self, order: _Order, credits_: int) -> None:
        # An account that is overdrawn pays with what it gets.
        paid = min(self._debt, credits_)
        self._debt -= paid
        self._rests[order] = self._rests.get(order, 0) + credits_ - paid

    def _take(self, credits_: int) -> None:
        for order in sorted(self._rests):
            part = min(self._rests[order], credits_)
            self._rests[order] -= part
            credits_ -= part
        self._debt += credits_
