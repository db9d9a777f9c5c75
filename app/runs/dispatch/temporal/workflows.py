"""RunWorkflow: hands one run to a worker, until it has ended.

Temporal stores what is here: the ids of an account and of a run, and no contents. Changes must suit the
workflows that are under way (https://docs.temporal.io/develop/python/versioning).
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from app.ids import AccountId, RunId, RunKey
from app.platform.temporal.retries import always

EXECUTE_RUN = "execute_run"
CANCEL_RUN = "cancel_run"

_LONGEST_ATTEMPT = timedelta(days=2)
"""Twice the longest time limit of a run. What ends an attempt before are the run's deadline and missing
heartbeats; after it, another attempt would wait for the same run."""
_CANCEL_TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True)
class RunReference:
    """The argument of the workflow and of its activities."""

    account_id: str
    run_id: str
    heartbeat_timeout_s: float
    """How long an attempt may give no sign of life: the lease of the process that has submitted the run."""

    @property
    def key(self) -> RunKey:
        return RunKey(AccountId(UUID(self.account_id)), RunId(self.run_id))


def workflow_id_of(run: RunKey) -> str:
    """The id of the run's workflow: there is never more than one at a time."""
    return f"run/{run.account_id}/{run.run_id}"


@workflow.defn(name="run")
class RunWorkflow:
    """Ends when the run has ended. The database, not its result, has how."""

    @workflow.run
    async def run(self, run: RunReference) -> None:
        """Have the run executed; a cancellation of the workflow cancels it."""
        try:
            await workflow.execute_activity(
                EXECUTE_RUN,
                run,
                start_to_close_timeout=_LONGEST_ATTEMPT,
                heartbeat_timeout=timedelta(seconds=run.heartbeat_timeout_s),
                retry_policy=always(),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                # The activity may have been in no worker at that moment.
                await workflow.execute_local_activity(
                    CANCEL_RUN, run, start_to_close_timeout=_CANCEL_TIMEOUT, retry_policy=always()
                )
            raise
