"""The JSON of what somebody should look at."""

from collections.abc import Sequence
from uuid import UUID

from app.billing.search_repository import Unpriced
from app.http.schemas import MetersShape, Moment, Shape
from app.runs.repository import Drifted, RunRecord


class DriftedRun(Shape):
    """A run on whose messages the meters disagreed."""

    run_id: str
    graph_id: str
    ended_at: Moment | None
    meters: MetersShape | None
    drift: int

    @classmethod
    def of(cls, run: RunRecord) -> "DriftedRun":
        """Show a run."""
        return cls(
            run_id=run.key.run_id,
            graph_id=run.graph_id,
            ended_at=run.ended_at,
            meters=None if run.meters is None else MetersShape.model_validate(run.meters),
            drift=0 if run.meters is None else run.meters.drift,
        )


class DriftAlarm(Shape):
    """Runs whose meters disagreed, how many messages that concerns, and the runs that ended last."""

    runs: int
    messages: int
    newest: Sequence[DriftedRun]


class UnpricedReceipt(Shape):
    """A receipt that waits for a price."""

    id: UUID
    run_id: str
    model: str
    created_at: Moment


class UnpricedAlarm(Shape):
    """Receipts that wait for a price, of how many runs, and the newest of them."""

    receipts: int
    runs: int
    newest: Sequence[UnpricedReceipt]


class AlarmsShape(Shape):
    """What somebody should look at."""

    drift: DriftAlarm
    unpriced: UnpricedAlarm

    @classmethod
    def of(cls, drifted: Drifted, unpriced: Unpriced) -> "AlarmsShape":
        """Show what was found."""
        return cls(
            drift=DriftAlarm(
                runs=drifted.runs,
                messages=drifted.messages,
                newest=[DriftedRun.of(run) for run in drifted.newest],
            ),
            unpriced=UnpricedAlarm.model_validate(unpriced),
        )
