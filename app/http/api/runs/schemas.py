"""JSON of runs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from app.billing.receipts.records import RunTotals
from app.events import StopKind, StopState
from app.executors.evidence import EvidenceType
from app.http.response_model import Moment, Money, ResponseModel
from app.requests.outcome import GraphFinal, RunStatus
from app.runs.feedback.records import Rating
from app.runs.records import RunRecord
from app.usage.records import Meters
from app.workspaces.records import HostTraffic


class AcceptedRunResponse(ResponseModel):
    """A run that executes in the background."""

    run_id: str
    status: RunStatus


class EvidenceResponse(ResponseModel):
    """One piece of evidence; what `content` has depends on `type`."""

    position: Annotated[int, Field(description="Of a later attempt: after a multiple of a million.")]
    at: Moment
    type: EvidenceType
    content: dict[str, Any]


class InterruptionResponse(ResponseModel):
    """State of the last request to stop a run or its current turn."""

    kind: StopKind
    state: StopState
    at: Moment


class MetersResponse(ResponseModel):
    """Number of messages each meter counted."""

    sdk: int
    gateway: int


class CostComparisonResponse(ResponseModel):
    """What the run cost at list prices by both meters: without an operator's prices and the markup."""

    measured_usd: Annotated[Money, Field(description="Of the messages that were measured.")]
    sdk_usd: Annotated[
        Money | None, Field(description="The SDK's own total; null if it does not contain exactly these.")
    ]
    explained_usd: Annotated[Money, Field(description="What the SDK is known not to count: see `notes`.")]
    drift_usd: Annotated[
        Money | None, Field(description="The rest of the difference; null if the two cannot be compared.")
    ]
    notes: Annotated[
        Sequence[str], Field(description="What the SDK does not count, or why they cannot be compared.")
    ]


def comparison_of(meters: Meters | None) -> CostComparisonResponse | None:
    """The comparison of a run that has ended, if there is one."""
    compared = None if meters is None else meters.cost
    return None if compared is None else CostComparisonResponse.model_validate(compared)


class RunBillingResponse(ResponseModel):
    """The charges of a run so far.

    `meters`, `drift` (the number of messages they disagree on) and `costComparison` are null until it has
    ended or waited without being executed; then they are of all that was executed before.
    """

    receipts: int
    cost_usd: Money
    web_search_requests: int
    web_fetch_requests: int
    meters: MetersResponse | None
    drift: int | None
    cost_comparison: CostComparisonResponse | None

    @classmethod
    def of(cls, totals: RunTotals, meters: Meters | None) -> "RunBillingResponse":
        return cls.built_from(
            totals,
            meters=meters,
            drift=None if meters is None else meters.drift,
            cost_comparison=comparison_of(meters),
        )


class HostTrafficResponse(ResponseModel):
    """What a run's commands have exchanged with one host."""

    host: Annotated[str, Field(description="With its port if that is not 443.")]
    sent_bytes: int
    received_bytes: int
    connections: int


class FeedbackResponse(ResponseModel):
    """What a person thinks of the answer of a run, and when they said it."""

    rating: Rating
    note: str | None
    at: Moment


class RunResponse(ResponseModel):
    """The current state of a run; `billing` is null for keys without `receipts:read`."""

    run_id: str
    graph_id: str
    model: str
    status: RunStatus
    attempt: int
    request_id: str | None
    state_key: str | None
    interruption: InterruptionResponse | None
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    contents_deleted_at: Moment | None
    events_deleted_at: Moment | None
    final: GraphFinal | None
    tool_failures: int | None
    skills: Mapping[str, str] | None
    """The skills it could read, with the SHA-256 of each; null without any, and until it has ended."""
    network: Annotated[
        Sequence[HostTrafficResponse],
        Field(description="What its commands have exchanged with hosts, after the end of each attempt."),
    ]
    billing: RunBillingResponse | None
    end_user: str | None
    tags: Mapping[str, str] | None
    metadata: Annotated[Mapping[str, str] | None, Field(description="Null once the contents are deleted.")]
    feedback: Annotated[FeedbackResponse | None, Field(description="Null once the contents are deleted.")]

    @classmethod
    def of(cls, run: RunRecord, totals: RunTotals | None, traffic: Sequence[HostTraffic]) -> "RunResponse":
        billing = None if totals is None else RunBillingResponse.of(totals, run.meters)
        return cls.built_from(run, run.key, run.labels, network=traffic, billing=billing)
