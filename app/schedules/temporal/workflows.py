"""ScheduleWorkflow: what a schedule in Temporal starts at each of its times.

Temporal stores what is here: ids, times, and no contents. Changes must suit the workflows that are under way
(https://docs.temporal.io/develop/python/versioning).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from temporalio import workflow
from temporalio.common import Priority, SearchAttributeKey

from app.platform.temporal.retries import always
from app.schedules.firing.moments import Firing

FIRE_SCHEDULE = "fire_schedule"

_SCHEDULED_AT = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")
_ATTEMPT_TIMEOUT = timedelta(seconds=60)


@dataclass(frozen=True)
class ScheduleReference:
    """The argument of the workflow."""

    schedule: str
    account_id: str
    revision: int


@dataclass(frozen=True)
class FiredSchedule:
    """The argument of its activity."""

    schedule: str
    revision: int
    scheduled_at: str
    """In ISO format, as the next one."""
    fired_at: str

    @property
    def id(self) -> UUID:
        """Of the schedule."""
        return UUID(self.schedule)

    @property
    def firing(self) -> Firing:
        """What Temporal has noticed."""
        moments = map(datetime.fromisoformat, (self.scheduled_at, self.fired_at))
        return Firing(self.revision, *moments)


@workflow.defn(name="schedule")
class ScheduleWorkflow:
    """Ends when the database has decided what becomes of this time."""

    @workflow.run
    async def run(self, schedule: ScheduleReference) -> None:
        """Have it decided; the run has a workflow of its own."""
        info = workflow.info()
        # A workflow that a person has started without the schedule has none.
        scheduled_at = info.typed_search_attributes.get(_SCHEDULED_AT) or info.start_time
        fired = FiredSchedule(
            schedule.schedule, schedule.revision, scheduled_at.isoformat(), info.start_time.isoformat()
        )
        await workflow.execute_activity(
            FIRE_SCHEDULE,
            fired,
            start_to_close_timeout=_ATTEMPT_TIMEOUT,
            retry_policy=always(),
            priority=Priority(fairness_key=schedule.account_id),
        )
