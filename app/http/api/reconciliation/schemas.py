"""JSON of reconciliations."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from app.billing.prices.quote import plain
from app.billing.reconciliation import records
from app.billing.reconciliation.statements.records import (
    OrganizationStatement,
    ReconciliationStatement,
    RunStatement,
)
from app.http.response_model import AsOf, Moment, Money, ResponseModel

Exact = Annotated[str, Field(description="An exact decimal.")]


class ConfirmedCost(ResponseModel):
    """The account's cost, by what the provider's reports show of it."""

    cost_usd: Money
    confirmed_usd: Annotated[
        Money, Field(description="Of hours and models in which reports and receipts agree.")
    ]
    unconfirmed_usd: Annotated[
        Money, Field(description="Of hours and models with an unexplained difference, of whatever account.")
    ]
    pending_usd: Annotated[Money, Field(description="Not compared yet.")]


class DifferenceLine(ResponseModel):
    """The difference of one kind of token, or of searches."""

    kind: str
    quantity: str
    unit_price_usd: Exact | None = None
    amount_usd: Exact | None = None


class DifferenceResponse(ResponseModel):
    """A located difference; quantities and amounts are the provider's minus ours."""

    id: UUID
    starting_at: Moment
    ending_at: Moment
    model: str
    inference_geo: str
    service_tier: str
    speed: str
    context_window: str
    cause: records.Cause
    explained: bool
    counts: Mapping[str, int]
    amount_usd: Annotated[Money | None, Field(description="At our prices; null where there is none.")]
    lines: Sequence[DifferenceLine]
    provider_key_id: Annotated[str | None, Field(description="The key of another program.")]
    account_id: UUID | None
    evidence: Mapping[str, Any]

    @classmethod
    def of(cls, found: records.Difference) -> "DifferenceResponse":
        return cls.built_from(
            found,
            found.dimensions,
            explained=found.is_explained,
            counts={kind: count for kind, count in records.by_kind(found.counts).items() if count},
            provider_key_id=found.api_key_id,
        )


class PriceDifferenceResponse(ResponseModel):
    """A unit price of the provider that is not ours, and the proposed adjustment."""

    starting_at: Moment
    ending_at: Moment
    model: str
    inference_geo: str
    service_tier: str
    speed: str
    context_window: str
    kind: str
    tokens: int
    provider_unit_usd: Exact
    own_unit_usd: Exact | None
    price_version: str
    amount_usd: Annotated[Money, Field(description="What an adjustment would add; never applied by itself.")]
    source: records.CostSource

    @classmethod
    def of(cls, found: records.PriceDifference) -> "PriceDifferenceResponse":
        return cls.built_from(
            found,
            found.dimensions,
            provider_unit_usd=plain(found.provider_unit_usd),
            own_unit_usd=None if found.own_unit_usd is None else plain(found.own_unit_usd),
        )


class ReconciledModelResponse(ResponseModel):
    """The sums of one model, before the markup."""

    model: str
    receipts: int
    recorded_usd: Annotated[Money, Field(description="What the receipts charge.")]
    reported_usd: Annotated[Money, Field(description="The provider's counts of our keys, at our prices.")]
    residual_usd: Annotated[Money, Field(description="Reported minus recorded.")]
    explained_usd: Money
    unexplained_usd: Money
    foreign_usd: Annotated[Money, Field(description="Other keys of the organization; in no other sum.")]
    listed_usd: Annotated[Money | None, Field(description="What the provider charges for all keys.")]
    differences: int
    unexplained: int


class OrganizationResponse(ResponseModel):
    """The whole comparison."""

    total: ReconciledModelResponse
    models: Sequence[ReconciledModelResponse]
    unexplained: Sequence[DifferenceResponse]
    prices: Sequence[PriceDifferenceResponse]
    problem: Annotated[str | None, Field(description="Why the latest comparison failed.")]

    @classmethod
    def of(cls, found: OrganizationStatement) -> "OrganizationResponse":
        return cls.built_from(
            found,
            total=_total(found.models),
            unexplained=[DifferenceResponse.of(each) for each in found.unexplained],
            prices=[PriceDifferenceResponse.of(each) for each in found.prices],
        )


_ComparedUntil = Annotated[Moment | None, Field(description="Null: nothing was ever compared.")]


class RunReconciliationResponse(ResponseModel):
    """How a run's receipts compare with the provider's reports."""

    compared_until: _ComparedUntil
    run: ConfirmedCost
    differences: Annotated[
        Sequence[DifferenceResponse],
        Field(description="The newest about the account in hours and models of this run."),
    ]
    as_of: AsOf = None

    @classmethod
    def of(cls, found: RunStatement, as_of: datetime | None) -> "RunReconciliationResponse":
        differences = [DifferenceResponse.of(each) for each in found.differences]
        return cls.built_from(found, differences=differences, as_of=as_of)


class ReconciliationResponse(ResponseModel):
    """How receipts compare with the provider's reports."""

    compared_until: _ComparedUntil
    account: ConfirmedCost
    differences: Annotated[
        Sequence[DifferenceResponse], Field(description="The newest unexplained ones about the account.")
    ]
    organization: Annotated[
        OrganizationResponse | None, Field(description="With `admin` only: it shows the use of all accounts.")
    ]
    as_of: AsOf = None

    @classmethod
    def of(cls, found: ReconciliationStatement, as_of: datetime | None) -> "ReconciliationResponse":
        return cls.built_from(
            found,
            differences=[DifferenceResponse.of(each) for each in found.differences],
            organization=None if found.organization is None else OrganizationResponse.of(found.organization),
            as_of=as_of,
        )


def _total(models: Sequence[records.ReconciledModel]) -> records.ReconciledModel:
    listed = [each.listed_usd for each in models if each.listed_usd is not None]
    summed = [
        each.name for each in fields(records.ReconciledModel) if each.name not in {"model", "listed_usd"}
    ]
    sums: dict[str, Any] = {name: sum(getattr(each, name) for each in models) for name in summed}
    return records.ReconciledModel(model="", listed_usd=sum(listed, Decimal(0)) if listed else None, **sums)
