"""RunSupervisor: the tasks of all runs that this process executes; what happens in one is in `worker`."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import structlog
from anyio.abc import TaskGroup

from app.conversations.grants.service import RunGrants
from app.executors.approvals import Permissions
from app.executors.control import RunControl
from app.executors.inbox import MessageLimits
from app.executors.port import RunPlan
from app.graphs.rules.evaluation import CallRules, Conditions
from app.ids import RunKey
from app.platform.background import first_of
from app.platform.clock.clock import Clock
from app.platform.clock.lease import Lease
from app.platform.db import Database
from app.platform.logs.context import call_detached, for_run
from app.platform.telemetry.run_trace import RunTrace
from app.platform.telemetry.service import Telemetry
from app.requests.outcome import GraphFinal
from app.requests.run_request import GraphRunRequest
from app.runs.dispatch.places import Places
from app.runs.events.publisher import RunEventPublisher
from app.runs.events.tracing import traced_plan
from app.runs.evidence.recorder import EvidenceRecorder
from app.runs.waits.live import RunWaits
from app.runs.worker import RunWorker
from app.streams.port import EventLog

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ActiveRun:
    """A run that this process executes."""

    plan: RunPlan
    control: RunControl
    publisher: RunEventPublisher
    evidence: EvidenceRecorder
    trace: RunTrace | None = None
    """None without telemetry."""
    stops_unread: bool = False
    """Whether it is cancelled when its readers have left."""
    has_place: bool = True
    """Whether it counts among those that this process executes at once."""
    final: GraphFinal | None = None
    """Set when it has ended, unless another process executes it further."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False
    """Whether another process has taken it over, as far as this one knows."""


@dataclass(slots=True)
class RunSupervisor:
    """Executes runs in tasks that are independent of the requests that started them."""

    database: Database
    worker: RunWorker
    event_log: EventLog
    places: Places
    tasks: TaskGroup
    message_limits: MessageLimits
    lease: Lease
    telemetry: Telemetry
    clock: Clock = field(default_factory=Clock)
    conditions: Conditions | None = None
    """Evaluates those of rules; without it, calls that depend on one are denied."""
    max_evidence_bytes: int = 0
    """Of each attempt; 0: none is kept."""
    _active: dict[RunKey, ActiveRun] = field(default_factory=dict, init=False)
    _is_stopping: bool = field(default=False, init=False)

    def start(self, plan: RunPlan, request: GraphRunRequest, *, has_place: bool = True) -> ActiveRun:
        """Execute a run that is stored as running in this process; its end gives back the place it holds.

        `has_place`: it holds one. It begins at the caller's next `await`.
        """
        trace = self.telemetry.open(traced_plan(plan), waited=plan.queued_position is not None)
        publisher = RunEventPublisher(
            self.database,
            self.event_log,
            plan.run,
            attempt=plan.attempt,
            lease=self.lease,
            observe=None if trace is None else trace.observe,
        )
        evidence = EvidenceRecorder(self.database, plan.run, plan.attempt, self.max_evidence_bytes)
        control = RunControl(
            publisher.publish,
            permissions=self._permissions(plan),
            add_evidence=evidence.keep,
            client_tool_timeout=timedelta(seconds=plan.spec.client_tool_timeout_s),
            question_timeout=timedelta(seconds=plan.spec.question_timeout_s),
            limits=self.message_limits,
            waits=RunWaits(self.database, plan.run, plan.attempt, self.clock),
        )
        control.keep(plan.waits)
        self._active[plan.run] = run = ActiveRun(
            *(plan, control, publisher, evidence, trace),
            stops_unread=request.on_disconnect == "cancel",
            has_place=has_place,
        )
        if self._is_stopping:
            control.stop.set()
        call_detached(self.tasks.start_soon, self._execute, run, request)
        return run

    def find(self, run: RunKey) -> ActiveRun | None:
        """The run, if this process executes it and has not lost it."""
        return None if self.lease.is_lost(run) else self._active.get(run)

    async def wait_ended(self, run: RunKey) -> None:
        """Wait until this process does not execute the run: it may have lost an earlier attempt of it."""
        if (active := self._active.get(run)) is not None:
            await active.ended.wait()

    def active(self) -> list[ActiveRun]:
        return list(self._active.values())

    def active_until_unread(self) -> list[RunKey]:
        """The runs that this process executes, and that are cancelled when their readers have left."""
        return [key for key, run in self._active.items() if run.stops_unread]

    def active_attempts(self) -> dict[RunKey, int]:
        return {key: run.plan.attempt for key, run in self._active.items()}

    def lose(self, runs: Iterable[RunKey]) -> None:
        """Stop runs that another process has taken over or ended; they publish nothing more."""
        for run in self._lose(runs):
            self.event_log.abandon(run.plan.run)
            if not run.control.stop.is_set():
                with run.plan.log_context():
                    log.warning("run.lost", run_id=run.plan.run.run_id)
                run.control.stop.set()

    def hand_over(self, runs: Iterable[RunKey]) -> list[ActiveRun]:
        """Stop runs whose next attempt another process will execute; they publish nothing more.

        The caller hands their event logs over.
        """
        given = self._lose(runs)
        for run in given:
            run.control.is_handed_over = True
            run.control.stop.set()
        return given

    def cancel(self, runs: Iterable[RunKey]) -> None:
        """Stop runs whose cancellation is stored, unless they are stopping."""
        for key in runs:
            if (run := self.find(key)) is not None and not run.control.stop.is_set():
                with for_run(key):
                    log.info("run.cancelled_late")
                    run.control.cancel_stored()

    def is_active(self, run: RunKey) -> bool:
        return self.find(run) is not None

    async def wait_idle(self, *, within_s: float) -> bool:
        """Whether this process executes no run any more, after `within_s` at most."""
        return await first_of(self._idle(), timeout_s=within_s) is not None

    def stop(self) -> None:
        """Stop all runs, and those that start from now on."""
        self._is_stopping = True
        for run in self._active.values():
            run.control.stop.set()

    async def _idle(self) -> None:
        # Runs that have been claimed and start meanwhile have a place.
        await self.places.emptied.wait()
        for run in self.active():
            await run.ended.wait()

    def _lose(self, runs: Iterable[RunKey]) -> list[ActiveRun]:
        lost = [run for key in runs if (run := self._active.get(key)) is not None]
        self.lease.lose(run.plan.run for run in lost)
        for run in lost:
            run.is_lost = True
        return lost

    def _permissions(self, plan: RunPlan) -> Permissions:
        spec, account_id, conversation = plan.spec, plan.run.account_id, plan.conversation
        return Permissions(
            CallRules(spec.all_rules, self.conditions, _facts(plan), owner=str(account_id)),
            spec.permission_mode,
            timedelta(seconds=spec.approval_timeout_s),
            grants=None
            if conversation is None
            else RunGrants(self.database, account_id, conversation.state_key, spec.id),
        )

    async def _execute(self, run: ActiveRun, request: GraphRunRequest) -> None:
        plan = run.plan
        try:
            with plan.log_context():
                run.final = await self.worker.execute(
                    plan,
                    request,
                    run.control,
                    publisher=run.publisher,
                    evidence=run.evidence,
                    trace=run.trace,
                )
        finally:
            if run.has_place:
                self.places.give_back()
            del self._active[plan.run]
            self.lease.forget(plan.run)
            run.ended.set()


def _facts(plan: RunPlan) -> dict[str, dict[str, Any]]:
    return {
        "run": {
            "id": plan.run.run_id,
            "graph": plan.spec.id,
            "model": plan.model,
            "conversation": "" if plan.conversation is None else plan.conversation.state_key,
            "attempt": plan.attempt,
        },
        "account": {"id": str(plan.run.account_id), "keyId": str(plan.attribution.api_key_id)},
    }
