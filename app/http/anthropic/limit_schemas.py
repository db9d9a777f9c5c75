"""JSON of spend limits, which are budgets, as clients of the provider's Admin API read and write it."""

from collections.abc import Sequence
from typing import Annotated, Final, Generic, Literal, Self, TypeAlias, TypeVar
from uuid import uuid5

from pydantic import BaseModel, Field

from app.billing.budgets.records import AccountBudget, BudgetScope, BudgetUse, BudgetWindow
from app.http.response_model import Moment
from app.ids import AccountId
from app.requests.attribution import EndUser

_CREDITS_PER_CENT: Final = 100_000
MAX_CENTS_DIGITS: Final = 12

Period: TypeAlias = Literal["daily", "monthly"]
"""Budgets have no weeks."""
_WINDOWS: Final[dict[Period, BudgetWindow]] = {"daily": "day", "monthly": "month"}
_PERIODS: Final[dict[BudgetWindow, Period]] = {window: period for period, window in _WINDOWS.items()}

_Item = TypeVar("_Item")


class OrganizationScope(BaseModel):
    """The account of the key."""

    type: Literal["organization"]


class UserScope(BaseModel):
    """An end user."""

    type: Literal["user"]
    user_id: str
    """Of an erased one it is the pseudonym, which no request may name."""


class NamedUserScope(UserScope):
    """An end user that a request names."""

    user_id: EndUser


LimitScope: TypeAlias = Annotated[OrganizationScope | UserScope, Field(discriminator="type")]
ScopeType: TypeAlias = Literal["organization", "user"]


class SpendLimitRequest(BaseModel):
    """A spend limit to set; fields that it does not have are ignored, as the provider does."""

    scope: Annotated[OrganizationScope | NamedUserScope, Field(discriminator="type")]
    amount: Annotated[str, Field(pattern=rf"^[0-9]{{1,{MAX_CENTS_DIGITS}}}$", description="In cents.")]
    period: Period = "monthly"

    def budget(
        self, account_id: AccountId, known: Sequence[AccountBudget], *, is_operators: bool
    ) -> AccountBudget:
        """It as a budget: in place of the one of the same scope and period, of which a client expects one."""
        scope: BudgetScope = "account"
        match = None
        if self.scope.type == "user":
            scope, match = "endUser", self.scope.user_id
        window = _WINDOWS[self.period]
        same = (each for each in known if (each.scope, each.match, each.window) == (scope, match, window))
        # The audit log keeps ids for ever, so that of an end user's limit may not contain their name.
        new_id = f"spl_{uuid5(account_id, ' '.join((scope, match or '', window))).hex}"
        return AccountBudget(
            id=next((each.id for each in same), new_id),
            scope=scope,
            match=match,
            window=window,
            credits=int(self.amount) * _CREDITS_PER_CENT,
            tokens=None,
            mode="hard",
            time_zone="UTC",
            is_operators=is_operators,
        )


def period_of(budget: AccountBudget) -> Period:
    """The period of a budget that a spend limit can express."""
    return _PERIODS[budget.window]


def is_spend_limit(budget: AccountBudget) -> bool:
    of_users = budget.scope == "endUser" and budget.match is not None
    return (
        (budget.scope == "account" or of_users)
        and budget.window in _PERIODS
        and (budget.mode, budget.time_zone) == ("hard", "UTC")
        and budget.credits is not None
        and budget.credits % _CREDITS_PER_CENT == 0
    )


class SpendLimit(BaseModel):
    """A spend limit."""

    type: Literal["spend_limit"] = "spend_limit"
    id: str
    scope: LimitScope
    amount: str
    currency: Literal["USD"] = "USD"
    period: Period
    is_enabled: Literal[True] = True
    created_at: Moment
    updated_at: Moment

    @classmethod
    def of(cls, budget: AccountBudget, use: BudgetUse) -> Self:
        return cls(
            id=budget.id,
            scope=_scope_of(budget),
            amount=_cents(budget.credits or 0),
            period=period_of(budget),
            created_at=use.created_at,
            updated_at=use.updated_at,
        )


class UserActor(BaseModel):
    """An end user; nothing else is known of them."""

    type: Literal["user_actor"] = "user_actor"
    user_id: str
    name: str | None = None
    email_address: str | None = None
    deleted: Literal[False] = False


class SpendSummary(BaseModel):
    """The limit of an end user, and what they have spent of it, in cents."""

    actor: UserActor
    scope: UserScope
    source: UserScope
    amount: str
    currency: Literal["USD"] = "USD"
    period: Period
    period_to_date_spend: str
    spend_limit_id: str

    @classmethod
    def of(cls, budget: AccountBudget, use: BudgetUse) -> Self:
        """A budget of an end user that a spend limit can express."""
        scope = UserScope(type="user", user_id=budget.match or "")
        return cls(
            actor=UserActor(user_id=scope.user_id),
            scope=scope,
            source=scope,
            amount=_cents(budget.credits or 0),
            period=period_of(budget),
            period_to_date_spend=_cents(use.spent.credits),
            spend_limit_id=budget.id,
        )


class DeletedSpendLimit(BaseModel):
    """A spend limit that is deleted."""

    type: Literal["spend_limit_deleted"] = "spend_limit_deleted"
    id: str


class LimitPage(BaseModel, Generic[_Item]):
    """A page of a list; `next_page` is null on the last one."""

    data: Sequence[_Item]
    next_page: str | None


def _scope_of(budget: AccountBudget) -> LimitScope:
    if budget.match is None:
        return OrganizationScope(type="organization")
    return UserScope(type="user", user_id=budget.match)


def _cents(credits_: int) -> str:
    """Cents as the provider writes them: with a fraction only if there is one, of three digits at most."""
    whole, rest = divmod(credits_, _CREDITS_PER_CENT)
    fraction = f"{rest * 1000 // _CREDITS_PER_CENT:03}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)
