"""Credit balances and ledger entries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from app.billing.credit.payment_mode import PaymentMode

DEFAULT_PRIORITY = 0


@dataclass(frozen=True, slots=True)
class TopUp:
    """When an account requests more credit, and how much."""

    below: int
    """In credits; what is reserved counts as credit that is left."""
    credits: int
    per_day: int
    """How often on a day (UTC) at most."""

    @property
    def shown(self) -> dict[str, object]:
        """As the audit log shows it."""
        return {"belowCredits": self.below, "amountCredits": self.credits, "perDay": self.per_day}


@dataclass(frozen=True, slots=True)
class CreditBalance:
    """The credit of an account, in credits; the defaults are those of an account never charged."""

    mode: PaymentMode = "postpaid"
    granted: int = 0
    adjusted: int = 0
    spent: int = 0
    reserved: int = 0
    spent_by_month: Mapping[str, int] = field(default_factory=dict)
    """Credits by calendar month (UTC), `YYYY-MM`."""
    top_up_below: int | None = None
    top_up_credits: int | None = None
    top_up_per_day: int | None = None
    top_up_requested_at: datetime | None = None

    @property
    def top_up(self) -> TopUp | None:
        """When more is requested; None: never."""
        if self.top_up_below is None or self.top_up_credits is None or self.top_up_per_day is None:
            return None
        return TopUp(self.top_up_below, self.top_up_credits, self.top_up_per_day)

    @property
    def balance(self) -> int:
        """Credits granted and adjusted, less those spent."""
        return self.granted + self.adjusted - self.spent

    def spent_this_month(self, now: datetime) -> int:
        return self.spent_by_month.get(month_of(now), 0)

    @property
    def available(self) -> int | None:
        """Credits neither spent nor reserved; None for an account that is not prepaid."""
        return self.balance - self.reserved if self.mode == "prepaid" else None


class Spendable(NamedTuple):
    """What a run may spend of the credit of its account."""

    credits: int
    """Its reservation and what is available besides; what was requested if the account is not prepaid."""
    has_budgets: bool
    """Whether budgets limit it, too."""
    has_due: bool
    """Whether grants have expired and are still counted; then nothing was reserved."""
    held: int = 0
    """What is reserved for other runs, and may be left once their calls have ended."""


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """When the rest of a grant expires, and when it is spent: what has a lower priority is spent first."""

    expires_at: datetime | None = None
    priority: int = DEFAULT_PRIORITY

    @property
    def shown(self) -> dict[str, object]:
        """As the audit log shows them."""
        expires = None if self.expires_at is None else self.expires_at.isoformat()
        return {"expiresAt": expires, "priority": self.priority}


FOR_EVER = GrantTerms()
"""The terms of a grant that names none."""


class LedgerEntry(NamedTuple):
    """An entry of the credit ledger; `credits` is signed."""

    kind: str
    credits: int
    terms: GrantTerms = FOR_EVER


def month_of(moment: datetime) -> str:
    """The calendar month (UTC) of a moment, `YYYY-MM`."""
    return f"{moment.astimezone(UTC):%Y-%m}"
