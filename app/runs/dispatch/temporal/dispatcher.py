"""TemporalDispatcher: submits ready runs to Temporal, and executes those that it gives to this process."""

import asyncio
import random
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial

import anyio
from temporalio.worker import PollerBehaviorSimpleMaximum, UnsandboxedWorkflowRunner, Worker

from app.platform.background import first_of, forever, until
from app.platform.temporal.connection import TemporalConnection
from app.runs.dispatch.places import PlaceClaim, Places
from app.runs.dispatch.port import READY_CHANNEL
from app.runs.dispatch.records import Workers
from app.runs.dispatch.temporal.activities import HEARTBEATS, RunActivities
from app.runs.dispatch.temporal.submission import RunSubmitter
from app.runs.dispatch.temporal.workflows import RunWorkflow

_WOKEN = 8
"""How many processes try to submit a run of which all are notified."""

_RESTART_S = 1.0

_UNTIL_ENDED = timedelta(days=3)
"""Longer than any run: a process that drains ends its runs itself."""

_CLOSE_S = 5.0


class TemporalDispatcher:
    """The rows of runs decide as with `PostgresDispatcher`. Only a process with places has a worker."""

    def __init__(self, temporal: TemporalConnection, activities: RunActivities, *, task_queue: str) -> None:
        """`activities` execute the runs of this process."""
        self._temporal = temporal
        self._activities = activities
        self._queue = activities.queue
        self._task_queue = task_queue
        self._submitter = RunSubmitter(
            temporal,
            activities.queue.database,
            task_queue=task_queue,
            heartbeat_timeout_s=activities.lease.term_s,
        )
        self._draining = asyncio.Event()
        self._is_idle = asyncio.Event()
        """Set while no worker takes part."""
        self._is_idle.set()
        self._workers = Workers(with_free_places=0, first=None)

    @property
    def places(self) -> Places:
        return self._activities.places

    @property
    def is_first(self) -> bool:
        return self._workers.first == self._queue.process_id

    @property
    def is_draining(self) -> bool:
        return self._draining.is_set()

    def claim_place(self, *, wanted: bool) -> AbstractContextManager[PlaceClaim]:  # noqa: ARG002
        """Give none, wanted or not: each attempt is an activity."""
        return self.places.claim(wanted=False)

    def drain(self) -> None:
        self.places.is_closed = True
        self._draining.set()

    def observe(self, workers: Workers) -> None:
        self._workers = workers

    async def claim(self) -> None:
        """Submit the runs that are ready now."""
        await self._submitter.submit()

    async def ping(self) -> None:
        """Raise `TemporalUnavailable` if it does not respond."""
        await self._temporal.ping()

    async def work(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            tasks.start_soon(partial(forever, self._submitter.step, 0, name="submitting runs"))
            if self.places.total:
                tasks.start_soon(partial(until, self._execute, _RESTART_S, name="worker of Temporal"))

    async def aclose(self) -> None:
        """Let Temporal know of the runs that this process does not execute any more."""
        self.drain()
        self._activities.closed.set()
        await first_of(self._is_idle.wait(), timeout_s=_CLOSE_S)

    async def _listen(self) -> None:
        listen = partial(self._queue.database.listen, READY_CHANNEL, self._on_ready)
        await forever(listen, 0, name="notifications of ready runs")

    def _on_ready(self, _offered_to: str) -> None:
        if random.random() * self._workers.with_free_places < _WOKEN:  # noqa: S311 - no secret
            self._submitter.wake()

    async def _execute(self) -> bool:
        """Execute what Temporal gives, until this process drains; returns whether it does."""
        worker = self._new_worker()
        stopping = asyncio.create_task(self._shut_down_at_drain(worker))
        self._is_idle.clear()
        try:
            await worker.run()
        finally:
            self._is_idle.set()
            stopping.cancel()
        return self.is_draining

    async def _shut_down_at_drain(self, worker: Worker) -> None:
        await self._draining.wait()
        await worker.shutdown()

    def _new_worker(self) -> Worker:
        heartbeat_s = self._activities.lease.term_s / HEARTBEATS
        return Worker(
            self._temporal.client,
            task_queue=self._task_queue,
            workflows=[RunWorkflow],
            activities=[self._activities.execute_run, self._activities.cancel_run],
            # The workflow is a few lines, and not executed often enough to keep it in memory. Without that
            # there is no queue of this process either, where tasks would wait while it stands still.
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=0,
            max_concurrent_activities=self.places.total,
            # A process that stands still takes one run per open poll, each for the heartbeat timeout.
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
            workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
            # It would pass by the queue, where accounts are equal.
            disable_eager_activity_execution=True,
            max_heartbeat_throttle_interval=timedelta(seconds=heartbeat_s),
            default_heartbeat_throttle_interval=timedelta(seconds=heartbeat_s),
            graceful_shutdown_timeout=_UNTIL_ENDED,
        )
