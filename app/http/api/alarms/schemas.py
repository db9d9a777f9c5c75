"""JSON of alarms."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from pydantic import Field

from app.billing.receipts.records import UnpricedReceipts
from app.http.api.runs.schemas import MetersResponse
from app.http.response_model import Moment, ResponseModel
from app.runs.records import DriftedRuns, RunRecord


class DriftedRun(ResponseModel):
    """A run whose meters disagreed."""

    run_id: str
    graph_id: str
    ended_at: Moment | None
    meters: MetersResponse | None
    drift: int

    @classmethod
    def of(cls, run: RunRecord) -> "DriftedRun":
        """Build from a run record."""
        return cls(
            run_id=run.key.run_id,
            graph_id=run.graph_id,
            ended_at=run.ended_at,
            meters=None if run.meters is None else MetersResponse.model_validate(run.meters),
            drift=0 if run.meters is None else run.meters.drift,
        )


class DriftAlarm(ResponseModel):
    """Runs whose meters disagreed: their number, the number of messages concerned, and the latest runs."""

    runs: int
    messages: int
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
        """Build from query results."""
        return cls(
            drift=DriftAlarm(
                runs=drifted.runs,
                messages=drifted.messages,
                newest=[DriftedRun.of(run) for run in drifted.newest],
            ),
            unpriced=UnpricedAlarm.model_validate(unpriced),
        )
