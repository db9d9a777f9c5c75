"""RunSubmitter: starts a workflow for each ready run."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from app.ids import RunKey
from app.platform.background import first_of
from app.platform.db import Database
from app.platform.temporal.connection import RPC_TIMEOUT, TemporalConnection
from app.runs.dispatch.port import POLL_S
from app.runs.dispatch.temporal.repository import mark_unsubmitted, take_unsubmitted
from app.runs.dispatch.temporal.workflows import RunReference, RunWorkflow, workflow_id_of

SUBMITTED_AGAIN_AFTER = timedelta(seconds=10)
"""For a submitter that died between the database and Temporal, and a workflow that ended before its run."""

_RUNS_AT_ONCE = 32

_TASK_TIMEOUT = timedelta(seconds=5)
"""After it another process decides what the workflow does next: one may have got the task and stand still."""


@dataclass(frozen=True, slots=True)
class RunSubmitter:
    """Every process has one. It keeps nothing in memory: the rows have which runs were submitted."""

    temporal: TemporalConnection
    database: Database
    task_queue: str
    heartbeat_timeout_s: float
    _due: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def wake(self) -> None:
        self._due.set()

    async def step(self) -> None:
        """Wait until runs may be ready, and submit them."""
        await first_of(self._due.wait(), timeout_s=POLL_S * (1 + random.random() / 4))  # noqa: S311
        self._due.clear()
        await self.submit()

    async def submit(self) -> None:
        """Submit all ready runs that nothing has submitted; while Temporal is away, none."""
        count = _RUNS_AT_ONCE
        while count == _RUNS_AT_ONCE:
            if not await self.temporal.is_available():
                return
            async with self.database.write() as tx:
                runs = await take_unsubmitted(tx, count=_RUNS_AT_ONCE, again_after=SUBMITTED_AGAIN_AFTER)
            if failed := await self._start(runs):
                async with self.database.write() as tx:
                    await mark_unsubmitted(tx, failed)
            count = len(runs)

    async def _start(self, runs: Sequence[RunKey]) -> list[RunKey]:
        """Start their workflows; returns the runs for which that has failed."""
        results = await asyncio.gather(*map(self._start_workflow, runs), return_exceptions=True)
        failed: list[RunKey] = []
        for run, error in zip(runs, results, strict=True):
            if isinstance(error, RPCError):
                failed.append(run)
                self.temporal.failed(error)
            elif error is not None:
                raise error
        return failed

    async def _start_workflow(self, run: RunKey) -> None:
        await self.temporal.client.start_workflow(
            RunWorkflow.run,
            RunReference(str(run.account_id), run.run_id, self.heartbeat_timeout_s),
            id=workflow_id_of(run),
            task_queue=self.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=_TASK_TIMEOUT,
            # Its activity inherits it. No priority: it would let one account overtake all others.
            priority=Priority(fairness_key=str(run.account_id)),
            # Only decides what is to be done. The activity goes through the queue, where accounts are equal.
            request_eager_start=True,
            rpc_timeout=RPC_TIMEOUT,
        )
