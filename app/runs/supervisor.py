"""RunSupervisor: the runs that this process executes, from their wait for a slot to their end."""

import asyncio
from collections.abc import Iterable
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from anyio.abc import TaskGroup

from app.background import first_of
from app.clock.lease import Lease
from app.conversations.records import Conversation
from app.db import Database
from app.errors import AppError, Unavailable
from app.events import Queued
from app.executors.approvals import ApprovalRules
from app.executors.control import RunControl
from app.executors.inbox import MessageLimits
from app.executors.port import RunPlan
from app.ids import RunKey
from app.requests import GraphFinal, GraphRunRequest
from app.runs.dispatcher import RunDispatcher, SlotHolder
from app.runs.events.publisher import RunEventPublisher
from app.runs.repository import unfinished_turns
from app.runs.worker import RunWorker
from app.streams.port import EventLog

log = structlog.get_logger(__name__)

_CHECK_INTERVAL_S = 0.5
"""How often a run checks whether another process has ended the turn before it."""


@dataclass(slots=True)
class ActiveRun:
    """A run that this process executes."""

    plan: RunPlan
    control: RunControl
    publisher: RunEventPublisher
    final: GraphFinal | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False
    """Whether another process has taken it over, as far as this one knows."""

    async def publish_queued(self, position: int) -> None:
        """Publish for how many runs it waits; see `Queued`."""
        try:
            await self.publisher.publish(Queued(position=position))
        except AppError as error:
            # If the event log stays unavailable, the run itself fails later.
            log.warning("run.queued_not_published", reason=error.detail)


class RunSupervisor:
    """Executes runs in tasks that are independent of the requests that started them."""

    def __init__(
        self,
        database: Database,
        worker: RunWorker,
        event_log: EventLog,
        *,
        dispatcher: RunDispatcher,
        tasks: TaskGroup,
        message_limits: MessageLimits,
        lease: Lease,
    ) -> None:
        self._database = database
        self._worker = worker
        self._log = event_log
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._message_limits = message_limits
        self._lease = lease
        self._active: dict[RunKey, ActiveRun] = {}

    def start(
        self, plan: RunPlan, request: GraphRunRequest | None = None, *, is_started: bool = False
    ) -> None:
        """Execute a run that the dispatcher admitted; without `request` it is read when the run starts.

        `is_started`: it has claimed a slot, it is its turn, and it is stored as running.
        """
        publisher = RunEventPublisher(
            self._database, self._log, plan.run, attempt=plan.attempt, lease=self._lease
        )
        control = RunControl(publisher.publish, rules=_approval_rules(plan), limits=self._message_limits)
        self._active[plan.run] = run = ActiveRun(plan, control, publisher)
        # In a context of its own: what the request's handler bound for its log lines is not the run's.
        Context().run(self._tasks.start_soon, self._execute, run, request, is_started)

    def find(self, run: RunKey) -> ActiveRun | None:
        """The run, if this process executes it and has not lost it."""
        return None if self._lease.is_lost(run) else self._active.get(run)

    def active_attempts(self) -> dict[RunKey, int]:
        """The attempts of the runs that this process executes."""
        return {key: run.plan.attempt for key, run in self._active.items()}

    def lose(self, runs: Iterable[RunKey]) -> None:
        """Stop runs that another process has taken over or ended; they publish nothing more."""
        lost = [run for key in runs if (run := self._active.get(key)) is not None]
        self._lease.lose(run.plan.run for run in lost)
        for run in lost:
            run.is_lost = True
            self._log.abandon(run.plan.run)
            if not run.control.stop.is_set():
                log.warning("run.lost", run_id=run.plan.run.run_id)
                run.control.stop.set()

    def cancel(self, runs: Iterable[RunKey]) -> None:
        """Stop runs whose cancellation is stored, unless they are stopping."""
        for key in runs:
            if (run := self.find(key)) is not None and not run.control.stop.is_set():
                with structlog.contextvars.bound_contextvars(run_id=key.run_id):
                    log.info("run.cancelled_late")
                    run.control.cancel_stored()

    def is_active(self, run: RunKey) -> bool:
        """Whether this process executes the run and has not lost it."""
        return self.find(run) is not None

    async def drain(self, *, within_s: float) -> None:
        """Wait for the runs to finish, then stop those that have not."""
        ended = [asyncio.create_task(run.ended.wait()) for run in self._active.values()]
        if not ended:
            return
        _, late = await asyncio.wait(ended, timeout=within_s)
        for run in self._active.values():
            run.control.stop.set()
        if late:
            await asyncio.wait(late, timeout=within_s)

    async def _execute(self, run: ActiveRun, request: GraphRunRequest | None, is_started: bool) -> None:  # noqa: FBT001
        plan, stop = run.plan, run.control.stop
        try:
            with structlog.contextvars.bound_contextvars(run_id=plan.run.run_id, request_id=plan.request_id):
                if plan.conversation is not None and not is_started:
                    await self._wait_for_turn(plan.conversation, run)
                holder = SlotHolder(plan.run.account_id, plan.attribution.api_key_id)
                async with self._dispatcher.acquire(
                    holder, stop, on_wait=run.publish_queued, is_claimed=is_started
                ):
                    run.final = await self._worker.execute(
                        plan, run.control, publisher=run.publisher, request=request, is_started=is_started
                    )
        finally:
            self._dispatcher.release(plan.run.account_id)
            del self._active[plan.run]
            self._lease.forget(plan.run)
            run.ended.set()

    async def _wait_for_turn(self, conversation: Conversation, run: ActiveRun) -> None:
        """Wait until the conversation's earlier runs have ended, or this run is stopped."""
        published = False
        while not run.control.stop.is_set():
            earlier = await self._earlier_turns(conversation)
            if not earlier:
                return
            if not published:
                await run.publish_queued(len(earlier))
                published = True
            await self._wait_for_any(earlier, run.control.stop)

    async def _earlier_turns(self, conversation: Conversation) -> list[RunKey]:
        while True:
            try:
                async with self._database.snapshot() as reader:
                    return await unfinished_turns(reader, conversation, before=conversation.turns)
            except Unavailable as error:
                log.warning("run.turn_check_delayed", reason=error.detail)
                await asyncio.sleep(_CHECK_INTERVAL_S)

    async def _wait_for_any(self, earlier: list[RunKey], stop: asyncio.Event) -> None:
        here = [run.ended for key in earlier if (run := self._active.get(key)) is not None]
        await first_of(*(event.wait() for event in (*here, stop)), timeout_s=_CHECK_INTERVAL_S)


def _approval_rules(plan: RunPlan) -> ApprovalRules:
    spec = plan.spec
    timeout = timedelta(seconds=spec.approval_timeout_s)
    return ApprovalRules(frozenset(spec.approve), spec.permission_mode, timeout)
