"""ScheduleFiringWorker: takes part in what Temporal's schedules start."""

from dataclasses import dataclass

from temporalio.worker import PollerBehaviorSimpleMaximum, UnsandboxedWorkflowRunner, Worker

from app.platform.background import forever
from app.schedules.temporal.activities import ScheduleActivities
from app.schedules.temporal.workflows import ScheduleWorkflow

_AT_ONCE = 8
_RESTART_S = 1.0


@dataclass(frozen=True, slots=True)
class ScheduleFiringWorker:
    """Every process that accepts runs has one, in its own task queue: runs may fill theirs."""

    activities: ScheduleActivities

    async def work(self) -> None:
        """Go on until cancelled; what has begun to start a run starts it nevertheless."""
        await forever(self._execute, _RESTART_S, name="schedules of Temporal")

    async def _execute(self) -> None:
        schedules = self.activities.schedules
        worker = Worker(
            schedules.temporal.client,
            task_queue=schedules.firing_queue,
            workflows=[ScheduleWorkflow],
            activities=[self.activities.fire_schedule],
            # As in the worker for runs: nothing is kept in memory, or taken that is not executed at once.
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=0,
            max_concurrent_activities=_AT_ONCE,
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
            workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
            disable_eager_activity_execution=True,
        )
        await worker.run()
