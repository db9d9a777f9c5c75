"""Statements of months: pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import TypeAdapter

from app.billing.credit.records import month_of

FORMAT = "runtally-statement-1"

BOOKED_KINDS = ("grant", "adjustment", "expiry")


@dataclass(frozen=True, slots=True)
class StatementPart:
    """The charges of one model, graph or key."""

    name: str
    """Of a key: its id."""
    messages: int
    credits: int


@dataclass(frozen=True, slots=True)
class LateCharges:
    """What was charged for messages of a month after its statement had been made."""

    month: str
    credits: int


@dataclass(frozen=True, slots=True)
class Statement:
    """An account's credit in a month (UTC): all amounts are signed as in the ledger, and add up."""

    format: str
    account_id: str
    month: str
    opening: int
    grants: int
    adjustments: int
    expiries: int
    charges: int
    late_charges: Sequence[LateCharges]
    closing: int
    by_model: Sequence[StatementPart]
    by_graph: Sequence[StatementPart]
    by_key: Sequence[StatementPart]
    chain_position: int
    """The length of the account's chain when the statement was made."""
    chain_hash: str
    previous: str | None
    """SHA-256 of the content of the statement before."""


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """A statement as it was signed."""

    month: str
    content: str
    key: str | None
    signature: bytes | None
    made_at: datetime


_CONTENT = TypeAdapter(Statement)


def content_of(stored: StoredStatement) -> Statement:
    """What a statement says; raises `ValueError` if it cannot be read."""
    return _CONTENT.validate_json(stored.content)


@dataclass(frozen=True, slots=True)
class MonthSums:
    """The amounts of a statement."""

    booked: Mapping[str, int]
    """By kind of entry."""
    charges: int
    late: Sequence[LateCharges]

    @classmethod
    def of(
        cls,
        month: str,
        *,
        booked: Mapping[str, int],
        debits: Mapping[str, int],
        earlier: Iterable[Statement],
    ) -> "MonthSums":
        """What the statements before do not have of the sums until the month's end.

        `booked`: all entries until then, by kind; `debits`: by month. So an entry is in one statement, also
        if it is of a month whose statement had been made.
        """
        booked_before, debits_before = Counter[str](), Counter[str]()
        for statement in earlier:
            amounts = (statement.grants, statement.adjustments, statement.expiries)
            booked_before.update(dict(zip(BOOKED_KINDS, amounts, strict=True)))
            debits_before[statement.month] += statement.charges
            for each in statement.late_charges:
                debits_before[each.month] += each.credits
        late = [
            LateCharges(earlier_month, credits_ - debits_before[earlier_month])
            for earlier_month, credits_ in sorted(debits.items())
            if earlier_month < month and credits_ != debits_before[earlier_month]
        ]
        sums = {kind: booked.get(kind, 0) - booked_before[kind] for kind in BOOKED_KINDS}
        return cls(sums, debits.get(month, 0), late)

    def amounts(self, opening: int) -> dict[str, Any]:
        """The fields of a statement that begins with this balance."""
        total = sum(self.booked.values()) + self.charges + sum(each.credits for each in self.late)
        return {
            "opening": opening,
            "grants": self.booked["grant"],
            "adjustments": self.booked["adjustment"],
            "expiries": self.booked["expiry"],
            "charges": self.charges,
            "late_charges": self.late,
            "closing": opening + total,
        }


def month_start(month: str) -> datetime:
    """The first moment of a month, `YYYY-MM`, UTC."""
    year, _, number = month.partition("-")
    return datetime(int(year), int(number), 1, tzinfo=UTC)


def month_before(month: str) -> str:
    return month_of(month_start(month) - timedelta(days=1))


def month_after(month: str) -> str:
    start = month_start(month)
    return month_of(start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1))
