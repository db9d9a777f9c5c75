"""The data of schedules and of their due times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid5

from app.ids import AccountId, ApiKeyId, RunId, RunKey
from app.requests.wire_models import WireModel
from app.schedules.cron import Timing
from app.schedules.overlap import Overlap

PausedReason = Literal["by_request", "key_revoked", "failing"]

Trigger = Literal["cron", "request"]
"""Why there is a due time: the schedule's cron expression, or a client's request to start a run now."""

Outcome = Literal["starting", "waiting", "started", "skipped", "missed", "refused"]
"""What became of a due time.

`starting`: its run is being started. `waiting`: for the end of earlier runs. `started`: there is a run.
`skipped`: because of an earlier run. `missed`: no server was there in time, or the schedule was paused
meanwhile. `refused`: with an error.
"""


@dataclass(frozen=True, slots=True)
class ScheduleTerms:
    """What an account decides about a schedule, besides the request of its runs."""

    timing: Timing
    overlap: Overlap
    catch_up_s: int
    """How late a run may still be started, after an outage or while runs are refused for the moment."""


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """What is shown of the request of a schedule's runs."""

    graph_id: str
    model: str | None
    state_key: str | None
    question: str
    """The beginning of the last message's text."""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """The request of a schedule's runs, as it is stored."""

    summary: RequestSummary
    text: str = field(repr=False)
    """As JSON, with its files."""


class Deployment(WireModel):
    """What a schedule has whose runs each begin a session of Managed Agents, as its row keeps it."""

    posted: Mapping[str, Any]
    """What its client has posted, which is shown."""
    updated_at: datetime
    archived_at: datetime | None = None

    def stored(self) -> dict[str, object]:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule, without the request of its runs."""

    id: UUID
    """Our own: a schedule that is deleted and created again starts other runs."""
    account_id: AccountId
    schedule_id: str
    api_key_id: ApiKeyId
    """The key that its runs are started with."""
    terms: ScheduleTerms
    summary: RequestSummary
    creation_hash: bytes
    """Of the request that created it."""
    paused_reason: PausedReason | None
    paused_at: datetime | None
    next_at: datetime | None
    """None while it is paused, and after its last due time."""
    aligned_at: datetime
    """When `next_at` was computed."""
    last_at: datetime | None
    refusals: int
    """How many due times in a row were refused."""
    bytes: int
    created_at: datetime
    deployment: Deployment | None

    @property
    def paused(self) -> bool:
        """Whether no run is started at its due times."""
        return self.paused_reason is not None

    @property
    def archived_at(self) -> datetime | None:
        """When it was archived, for good; only deployments are."""
        return None if self.deployment is None else self.deployment.archived_at


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """The values of a schedule to insert."""

    id: UUID
    account_id: AccountId
    schedule_id: str
    api_key_id: ApiKeyId
    terms: ScheduleTerms
    request: StoredRequest
    creation_hash: bytes
    paused: bool
    next_at: datetime | None
    deployment: Deployment | None


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A due time and what became of it."""

    schedule: UUID
    due_at: datetime
    trigger: Trigger
    run_id: RunId
    """The id of its run, whether or not there is one."""
    outcome: Outcome
    error: str | None
    """The code of the error with which its run was refused last."""
    attempts: int
    next_attempt_at: datetime
    """While an attempt to start the run is under way: when it is taken for lost."""
    start_by: datetime
    """Later no run is started."""
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A due time whose run this process starts; when it has expired, another process takes it up."""

    schedule: Schedule
    due: ScheduledRun
    attempt: int
    """1 for the first: then there can be no run yet."""
    to_cancel: tuple[RunId, ...]
    """Runs that this one replaces."""
    is_over: bool
    """Whether it is too late to start a run; one that was started before counts all the same."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.schedule.account_id, self.due.run_id)


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule for which there is something to do."""

    id: UUID
    account_id: AccountId


@dataclass(frozen=True, slots=True)
class FiringConfig:
    """Limits and times of what starts the runs of schedules."""

    poll_interval: timedelta = timedelta(seconds=1)
    lease: timedelta = timedelta(seconds=20)
    """After this time another process takes up a due time whose run this one has not started."""
    clock_tolerance: timedelta = timedelta(seconds=5)
    """Times that are farther ahead than they can be were stored before the database's clock went back."""
    longest_pause: timedelta = timedelta(minutes=1)
    """Between two attempts to start a run that is refused for the moment; the first pause is two seconds."""
    max_refusals: int = 20
    """After so many refusals in a row a schedule is paused."""
    max_concurrent: int = 8
    max_per_account: int = 2


def run_id_of(schedule: UUID, due_at: datetime) -> RunId:
    """The id of the run of a due time: the same whichever process starts it, and however often."""
    return RunId(str(uuid5(schedule, due_at.isoformat())))
