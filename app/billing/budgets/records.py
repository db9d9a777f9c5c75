"""Budgets and what is spent of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from app.requests.outcome import SpentBudget

BudgetScope = Literal["account", "key", "endUser", "tag", "graph"]
BudgetWindow = Literal["hour", "day", "month", "total"]
BudgetMode = Literal["soft", "hard"]


@dataclass(frozen=True, slots=True)
class AccountBudget:
    """A limit of an account."""

    id: str
    scope: BudgetScope
    match: str | None
    """The value of the scope that it limits; None: each of them by itself."""
    window: BudgetWindow
    credits: int | None
    """None: it limits tokens."""
    tokens: int | None
    mode: BudgetMode
    time_zone: str
    """Where its days and months begin."""
    is_operators: bool
    """Whether only `admin` may change it."""

    @property
    def shown(self) -> dict[str, Any]:
        """As the audit log shows it: without the name of an end user, because the log is never changed."""
        return {
            "scope": self.scope,
            "match": None if self.scope == "endUser" else self.match,
            "window": self.window,
            "mode": self.mode,
            "credits": self.credits,
            "tokens": self.tokens,
            "timeZone": self.time_zone,
        }


class Amount(NamedTuple):
    """Credits and tokens."""

    credits: int
    tokens: int

    def plus(self, other: "Amount") -> "Amount":
        return Amount(self.credits + other.credits, self.tokens + other.tokens)

    def least(self, other: "Amount") -> "Amount":
        return Amount(min(self.credits, other.credits), min(self.tokens, other.tokens))


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What is used of a budget in its current window, by the value that has used most."""

    value: str | None
    """None for the account, and where nothing is used."""
    spent: Amount
    held: Amount
    """What calls that are being made may cost at most."""
    resets_at: datetime | None
    """None: never."""
    created_at: datetime
    """Of the budget."""
    updated_at: datetime


class BudgetLeft(NamedTuple):
    """What is left of a budget for one run."""

    id: str
    mode: BudgetMode
    is_whole: bool
    """Whether it counts all that the account spends."""
    resets_at: datetime | None
    credits: int | None
    tokens: int | None
    held: Amount
    """What other runs hold of it, and is not left."""

    @property
    def spent(self) -> SpentBudget:
        """It as clients are refused with."""
        return SpentBudget(self.id, self.resets_at)

    def covers(self, needed: Amount, *, pending: int) -> bool:
        """Whether so much is left, `pending` credits of the account besides being spent."""
        if self.credits is not None:
            return self.credits - (pending if self.is_whole else 0) >= needed.credits
        return self.tokens is None or self.tokens >= needed.tokens

    def is_held(self, needed: Amount, *, pending: int) -> bool:
        """Whether so much is left if the calls of other runs cost nothing."""
        credits_ = None if self.credits is None else self.credits + self.held.credits
        tokens = None if self.tokens is None else self.tokens + self.held.tokens
        return self._replace(credits=credits_, tokens=tokens).covers(needed, pending=pending)
