"""The JSON of what somebody should look at."""

from collections.abc import Sequence
from uuid import UUID

from app.billing.search_repository import Unpriced
from app.http.schemas import MetersResponse, Moment, ResponseModel
from app.runs.repository import DriftedRuns, RunRecord


class DriftedRun(ResponseModel):
    """A run on whose messages the meters disagreed."""

    run_id: str
    graph_id: str
    ended_at: Moment | None
    meters: MetersResponse | None
    drift: int

    @classmethod
    def of(cls, run: RunRecord) -> "DriftedRun":
        """Show a run."""
        return cls(
            run_id=run.key.run_id,
            graph_id=run.graph_id,
            ended_at=run.ended_at,
            meters=None if run.meters is None else MetersResponse.model_validate(run.meters),
            drift=0 if run.meters is None else run.meters.drift,
        )


class DriftAlarm(ResponseModel):
    """Runs whose meters disagreed, how many messages that concerns, and the runs that ended last."""

    runs: int
    messages: int
    newest: Sequence[DriftedRun]


class UnpricedReceipt(ResponseModel):
    """A receipt that waits for a price."""

    id: UUID
    run_id: str
    model: str
    created_at: Moment


class UnpricedAlarm(ResponseModel):
    """Receipts that wait for a price, of how many runs, and the newest of them."""

    receipts: int
    runs: int
    newest: Sequence[UnpricedReceipt]


class AlarmsResponse(ResponseModel):
    """What somebody should look at."""

    drift: DriftAlarm
    unpriced: UnpricedAlarm

    @classmethod
    def of(cls, drifted: DriftedRuns, unpriced: Unpriced) -> "AlarmsResponse":
        """Show what was found."""
        return cls(
            drift=DriftAlarm(
                runs=drifted.runs,
                messages=drifted.messages,
                newest=[DriftedRun.of(run) for run in drifted.newest],
            ),
            unpriced=UnpricedAlarm.model_validate(unpriced),
        )
