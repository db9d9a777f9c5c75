"""JSON of budgets."""

import re
from decimal import Decimal
from typing import Annotated, Self

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from app.billing.budgets.records import AccountBudget, BudgetMode, BudgetScope, BudgetUse, BudgetWindow
from app.billing.credit.ledger import usd
from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from app.http.api.balance.schemas import WholeCredits
from app.http.parameters import NeverNull
from app.http.response_model import Moment, Money, ResponseModel
from app.requests.attribution import TAG_NAME, Label
from app.requests.wire_models import InputModel

MAX_TOKENS = 10**15
MAX_MATCH_CHARS = 200
_NOT_NEGATIVE = {
    "anyOf": [
        {"type": "string", "pattern": r"^(0|[1-9][0-9]{0,9})(\.[0-9]{1,7})?$"},
        {"type": "integer", "minimum": 0, "maximum": 9_999_999_999},
    ]
}
_VALUES: dict[BudgetScope, tuple[str, str]] = {
    "key": (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "must be the id of a key"),
    "tag": (rf"{TAG_NAME}=.{{1,128}}", "must be name=value of a tag"),
    "endUser": (r".{1,128}", "must be an end user, of at most 128 characters"),
    "graph": (r".+", "must be the id of a graph"),
}


class BudgetRequest(InputModel):
    """A budget to set, of either dollars or tokens."""

    scope: BudgetScope
    match: NeverNull[
        Annotated[
            Label, Field(max_length=MAX_MATCH_CHARS, description="The one value of the scope that it limits.")
        ]
    ] = None
    window: BudgetWindow
    usd: NeverNull[Annotated[WholeCredits, WithJsonSchema(_NOT_NEGATIVE)]] = None
    tokens: NeverNull[Annotated[int, Field(strict=True, ge=0, le=MAX_TOKENS)]] = None
    mode: BudgetMode
    time_zone: Annotated[str, Field(max_length=100)] = "UTC"

    @field_validator("match")
    @classmethod
    def _is_of_its_scope(cls, match: str, info: ValidationInfo) -> str:
        # A scope that is wrong itself is missing here.
        scope: BudgetScope | None = info.data.get("scope")
        if scope == "account":
            raise ValueError("must be omitted for the scope account")
        if scope is not None and not re.fullmatch((expected := _VALUES[scope])[0], match):
            raise ValueError(expected[1])
        return match

    @field_validator("usd")
    @classmethod
    def _is_not_negative(cls, value: Decimal) -> Decimal:
        if value < 0:
            raise ValueError("must not be below zero")
        return value

    @model_validator(mode="after")
    def _has_one_limit(self) -> Self:
        if (self.usd is None) == (self.tokens is None):
            raise ValueError("give either usd or tokens")
        return self

    def named(self, budget_id: str, *, is_operators: bool) -> AccountBudget:
        credits_ = None if self.usd is None else int(self.usd * CREDITS_PER_DOLLAR)
        return AccountBudget(
            *(budget_id, self.scope, self.match, self.window, credits_, self.tokens, self.mode),
            *(self.time_zone, is_operators),
        )


class BudgetResponse(ResponseModel):
    """A budget, and what is used of it in its current window.

    One without `match` shows the value that has used most. `held` is what calls that are being made may cost
    at most; `resetsAt` is null for `total`.
    """

    id: str
    scope: BudgetScope
    match: str | None
    window: BudgetWindow
    usd: Money | None
    tokens: int | None
    mode: BudgetMode
    time_zone: str
    by_operator: bool
    value: str | None
    spent_usd: Money
    spent_tokens: int
    held_usd: Money
    held_tokens: int
    remaining_usd: Money | None
    remaining_tokens: int | None
    resets_at: Moment | None

    @classmethod
    def of(cls, found: tuple[AccountBudget, BudgetUse]) -> "BudgetResponse":
        budget, used = found
        limit, tokens = budget.credits, budget.tokens
        return cls.built_from(
            used,
            budget,
            usd=None if limit is None else usd(limit),
            by_operator=budget.is_operators,
            spent_usd=usd(used.spent.credits),
            spent_tokens=used.spent.tokens,
            held_usd=usd(used.held.credits),
            held_tokens=used.held.tokens,
            remaining_usd=None if limit is None else usd(max(0, limit - used.spent.credits)),
            remaining_tokens=None if tokens is None else max(0, tokens - used.spent.tokens),
        )
