"""JSON of accounts, grants and adjustments."""

from decimal import Decimal
from typing import Annotated, Self

from pydantic import (
    ConfigDict,
    Field,
    StrictBool,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from app.auth.records import AccountRecord
from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.records import DEFAULT_PRIORITY, CreditBalance, GrantTerms
from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from app.http.api.balance.schemas import MAX_CREDITS, BalanceResponse, WholeCredits, computed_fields
from app.http.parameters import NeverNull
from app.http.response_model import Moment, ResponseModel
from app.ids import AccountId
from app.requests.dollars import ABOVE_ZERO, NOT_ZERO
from app.requests.wire_models import InputModel, UtcMoment


class ShownRetention(ResponseModel):
    """For how many days an account's contents are kept; null: as by default."""

    contents_days: int | None
    events_days: int | None
    transcripts_days: int | None
    workspaces_days: int | None
    evidence_days: int | None


class AccountResponse(ResponseModel):
    """An account."""

    id: AccountId
    name: str
    created_at: Moment
    suspended_at: Moment | None
    retention: ShownRetention


class _OfAccount(ResponseModel):
    account: str
    suspended_at: Moment | None
    retention: ShownRetention


class AccountBalance(BalanceResponse, _OfAccount):
    """An account and its credit."""

    @classmethod
    def of_account(cls, account: AccountRecord, credit: CreditBalance, **more: int) -> Self:
        return cls.built_from(credit, account, account=account.name, **computed_fields(credit), **more)


class ChangedAccount(AccountBalance):
    """A changed account; `stoppedRuns` are its runs that are being stopped."""

    stopped_runs: int


_EITHER_SIGN = {
    "anyOf": [
        {"type": "string", "pattern": f"^-?{NOT_ZERO}$"},
        {"type": "integer", "not": {"const": 0}, "minimum": -9_999_999_999, "maximum": 9_999_999_999},
    ]
}
"""OpenAPI schemas of dollar amounts."""

_Credits = Annotated[int, Field(strict=True, ge=-MAX_CREDITS, le=MAX_CREDITS)]
_GRANTED = {"type": "integer", "minimum": 1, "maximum": MAX_CREDITS}
_ADJUSTED = {"type": "integer", "not": {"const": 0}, "minimum": -MAX_CREDITS, "maximum": MAX_CREDITS}


class _Amount(InputModel):
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["usd"]}, {"required": ["credits"]}]},
    )

    usd: WholeCredits | None = None
    credits: _Credits | None = None
    note: Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")] | None = None

    @model_validator(mode="after")
    def _has_one_amount(self) -> Self:
        if (self.usd is None) == (self.credits is None) or {"usd", "credits"} <= self.model_fields_set:
            raise ValueError("give either usd or credits")
        return self

    @property
    def amount(self) -> int:
        if self.usd is not None:
            return int(self.usd * CREDITS_PER_DOLLAR)
        return self.credits or 0


class Grant(_Amount):
    """Credit to add, for a time or for ever."""

    expires_at: UtcMoment | None = None
    """When what is left of it expires."""
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] = DEFAULT_PRIORITY
    usd: NeverNull[Annotated[WholeCredits, WithJsonSchema(ABOVE_ZERO)]] = None
    credits: NeverNull[Annotated[_Credits, WithJsonSchema(_GRANTED)]] = None

    @property
    def terms(self) -> GrantTerms:
        """When it expires, and when it is spent."""
        return GrantTerms(self.expires_at, self.priority)

    @field_validator("usd", "credits")
    @classmethod
    def _is_positive(cls, amount: Decimal) -> Decimal:
        if amount <= 0:
            raise ValueError("must be above zero; to remove credit, post an adjustment")
        return amount


class Adjustment(_Amount):
    """A correction of either sign."""

    usd: NeverNull[Annotated[WholeCredits, WithJsonSchema(_EITHER_SIGN)]] = None
    credits: NeverNull[Annotated[_Credits, WithJsonSchema(_ADJUSTED)]] = None

    note: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]

    @field_validator("usd", "credits")
    @classmethod
    def _is_not_zero(cls, amount: Decimal) -> Decimal:
        if amount == 0:
            raise ValueError("must not be zero")
        return amount


AccountName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class NewAccount(InputModel):
    """An account to create."""

    name: AccountName


_Days = Annotated[int, Field(strict=True, ge=1, le=36_500)]


class RetentionChange(InputModel):
    """What changes of an account's retention; null: as by default."""

    contents_days: _Days | None = None
    events_days: _Days | None = None
    transcripts_days: _Days | None = None
    workspaces_days: _Days | None = None
    evidence_days: _Days | None = None

    @property
    def changed(self) -> dict[str, int | None]:
        """The days that were sent."""
        return self.model_dump(exclude_unset=True)


class AccountChange(InputModel):
    """What changes of an account; omitted fields stay unchanged."""

    name: NeverNull[AccountName] = None
    suspended: NeverNull[StrictBool] = None
    stop_runs: StrictBool = False
    mode: NeverNull[PaymentMode] = None
    retention: NeverNull[RetentionChange] = None

    @model_validator(mode="after")
    def _stops_what_is_suspended(self) -> Self:
        if self.stop_runs and not self.suspended:
            raise ValueError("stopRuns needs suspended: true")
        return self
