"""JSON of alarms."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from pydantic import Field

from app.billing.receipts.records import UnpricedReceipts
from app.http.api.runs.schemas import CostComparisonResponse, MetersResponse, comparison_of
from app.http.response_model import Moment, Money, ResponseModel
from app.runs.records import DriftedRuns, RunRecord


class DriftedRun(ResponseModel):
    """A run whose meters disagreed."""

    run_id: str
    graph_id: str
    ended_at: Moment | None
    meters: MetersResponse | None
    drift: int
    cost_comparison: CostComparisonResponse | None

    @classmethod
    def of(cls, run: RunRecord) -> "DriftedRun":
        return cls.built_from(
            run,
            run.key,
            drift=0 if run.meters is None else run.meters.drift,
            cost_comparison=comparison_of(run.meters),
        )


class DriftAlarm(ResponseModel):
    """Runs whose meters disagreed on messages or on the cost: how many, on how much, and the latest runs."""

    runs: int
    messages: int
    cost_usd: Annotated[Money, Field(description="The differences in cost, added without their signs.")]
    newest: Sequence[DriftedRun]


class UnpricedReceipt(ResponseModel):
    """A receipt of which a part has no price."""

    id: UUID
    run_id: str
    model: str
    unpriced: Annotated[Sequence[str], Field(description="What has no known price, as `name=value`.")]
    used_at: Moment
    created_at: Moment


class UnpricedAlarm(ResponseModel):
    """Receipts without a price: their number, the number of their runs, and the newest receipts."""

    receipts: int
    runs: int
    newest: Sequence[UnpricedReceipt]


class AlarmsResponse(ResponseModel):
    """Alarms of an account."""

    drift: DriftAlarm
    unpriced: UnpricedAlarm

    @classmethod
    def of(cls, drifted: DriftedRuns, unpriced: UnpricedReceipts) -> "AlarmsResponse":
        newest = [DriftedRun.of(run) for run in drifted.newest]
        return cls(
            drift=DriftAlarm.built_from(drifted, newest=newest),
            unpriced=UnpricedAlarm.model_validate(unpriced),
        )
