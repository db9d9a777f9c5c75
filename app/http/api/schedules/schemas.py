"""JSON of schedules and their history."""

from dataclasses import replace
from typing import Annotated, Self

from pydantic import Field

from app.http.parameters import MomentParam, NeverNull, StorableText
from app.http.response_model import Moment, ResponseModel
from app.ids import RUN_ID_PATTERN
from app.requests.wire_models import InputModel
from app.runs.delegated.requests import DelegatedRunRequest
from app.schedules.cron import MAX_CRON_CHARS, Timing
from app.schedules.overlap import Overlap
from app.schedules.records import Outcome, PausedReason, Schedule, ScheduledRun, ScheduleTerms, Trigger
from app.schedules.service import ScheduleOrder

MIN_CATCH_UP_S = 60
MAX_CATCH_UP_S = 7 * 86_400

CronText = Annotated[StorableText, Field(max_length=MAX_CRON_CHARS)]
TimeZoneName = Annotated[StorableText, Field(max_length=100)]
CatchUp = Annotated[int, Field(ge=MIN_CATCH_UP_S, le=MAX_CATCH_UP_S, strict=True)]


class ScheduleRequest(InputModel):
    """When to start runs, and which."""

    schedule_id: Annotated[str, Field(pattern=RUN_ID_PATTERN)] | None = None
    cron: CronText
    time_zone: TimeZoneName = "UTC"
    overlap: Overlap = "skip"
    paused: Annotated[bool, Field(strict=True)] = False
    start_at: MomentParam | None = None
    end_at: Annotated[MomentParam | None, Field(description="Exclusive.")] = None
    catch_up_s: CatchUp = 3600
    run: DelegatedRunRequest

    @property
    def order(self) -> ScheduleOrder:
        timing = Timing(self.cron, self.time_zone, self.start_at, self.end_at)
        terms = ScheduleTerms(timing, self.overlap, self.catch_up_s)
        return ScheduleOrder(self.schedule_id, terms, self.run, self.paused)


class ScheduleChange(InputModel):
    """Fields to change; omitted fields stay unchanged, and `run` is replaced as a whole."""

    cron: NeverNull[CronText] = None
    time_zone: NeverNull[TimeZoneName] = None
    overlap: NeverNull[Overlap] = None
    start_at: MomentParam | None = None
    end_at: Annotated[MomentParam | None, Field(description="Exclusive.")] = None
    catch_up_s: NeverNull[CatchUp] = None
    run: NeverNull[DelegatedRunRequest] = None

    def applied_to(self, terms: ScheduleTerms) -> ScheduleTerms:
        sent = {name: getattr(self, name) for name in self.model_fields_set if name != "run"}
        timing = {name: sent.pop(name) for name in list(sent) if name in Timing.__dataclass_fields__}
        return replace(terms, timing=replace(terms.timing, **timing), **sent)


class ScheduleResponse(ResponseModel):
    """A schedule. `nextAt` is null while it is paused and after its last due time."""

    schedule_id: str
    cron: str
    time_zone: str
    overlap: Overlap
    start_at: Moment | None
    end_at: Moment | None
    catch_up_s: int
    graph_id: str
    model: str | None
    state_key: str | None
    question: str
    """The first 1000 characters of the last message."""
    paused: bool
    paused_reason: PausedReason | None
    paused_at: Moment | None
    next_at: Moment | None
    last_at: Moment | None
    created_at: Moment

    @classmethod
    def of(cls, schedule: Schedule) -> Self:
        return cls.built_from(schedule, schedule.terms, schedule.terms.timing, schedule.summary)


class ScheduledRunResponse(ResponseModel):
    """A due time and what became of it; `runId` is null unless there is a run.

    `error` is the code of the error with which the run was refused, also while it is tried again.
    """

    due_at: Moment
    trigger: Trigger
    outcome: Outcome
    run_id: str | None
    started_at: Moment | None
    error: str | None

    @classmethod
    def of(cls, due: ScheduledRun) -> Self:
        return cls.built_from(due, run_id=due.run_id if due.outcome == "started" else None)
