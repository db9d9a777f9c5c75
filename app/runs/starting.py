"""RunStarter: starts the runs that this process has claimed, from what the database has of them."""

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from anyio.abc import TaskGroup

from app.billing.receipts.open_message_delivery import recover_receipts
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reports.service import BillingReports
from app.conversations.repository import find_conversation
from app.errors import AppError, Unavailable
from app.executors.port import FIRST_ATTEMPT, INTERNAL, NOT_FOUND, RunPlan
from app.executors.waiting.budget import raised_limit
from app.ids import RunKey
from app.platform.background import LONGEST_BACKOFF_S
from app.platform.clock.lease import Lease
from app.platform.db import Database, StatementFailed
from app.platform.logs.context import call_detached, for_run
from app.platform.metrics.runs import RunMetrics
from app.platform.objects.documents import StoredDocument
from app.platform.objects.storage import ContentLost
from app.platform.telemetry.service import Telemetry
from app.requests.run_request import GraphRunRequest, RunLimits
from app.runs.closing import RunCloser, RunEnd
from app.runs.commands.application import apply_queued
from app.runs.dispatch.places import Places
from app.runs.dispatch.records import ClaimedRun
from app.runs.dispatch.repository import take_queued_commands
from app.runs.events.ended import queue_wait_of
from app.runs.planner import RunPlanner
from app.runs.records import RunRecord
from app.runs.repository import stored_request
from app.runs.requests.codec import RequestCodec
from app.runs.requests.schema_preparation import SchemaPreparation
from app.runs.requeueing.repository import return_run
from app.runs.supervisor import RunSupervisor
from app.runs.waits.repository import calls_of, parked_state

log = structlog.get_logger(__name__)

_RECEIPTS_WAIT_S = 2.0
"""How long a resumed run waits for the receipts of its earlier attempts."""


@dataclass(frozen=True, slots=True)
class _Starting:
    """A claimed run that is planned."""

    attempt: int
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class RunStarter:
    """Plans claimed runs anew; one that cannot be planned any more ends with `internal`.

    Those that have not started when the process begins to stop are left to the others.
    """

    database: Database
    planner: RunPlanner
    schemas: SchemaPreparation
    supervisor: RunSupervisor
    closer: RunCloser
    receipts: ReceiptQueue
    reports: BillingReports
    codec: RequestCodec
    places: Places
    lease: Lease
    tasks: TaskGroup
    telemetry: Telemetry
    metrics: RunMetrics = field(default_factory=RunMetrics)
    _starting: dict[RunKey, _Starting] = field(default_factory=dict, init=False)

    def start(self, claimed: ClaimedRun) -> None:
        """Start a run that this process has claimed, and that holds a place."""
        self._starting[claimed.run.key] = _Starting(claimed.run.attempt)
        call_detached(self.tasks.start_soon, self._start, claimed)

    def attempts(self) -> dict[RunKey, int]:
        """The attempts of the runs of this process."""
        starting = {run: each.attempt for run, each in self._starting.items()}
        return {**starting, **self.supervisor.active_attempts()}

    def lose(self, runs: Collection[RunKey]) -> None:
        """Another process has taken these runs over, or has ended them."""
        self.lease.lose(run for run in runs if run in self._starting)
        self.supervisor.lose(runs)

    def executes(self, run: RunKey) -> bool:
        return run in self._starting or run in self.supervisor.active_attempts()

    async def wait_ended(self, run: RunKey) -> None:
        """Wait until this process neither executes the run nor is about to."""
        if (starting := self._starting.get(run)) is not None:
            await starting.over.wait()
        await self.supervisor.wait_ended(run)

    async def _start(self, claimed: ClaimedRun) -> None:
        run, has_started = claimed.run, False
        try:
            with for_run(run.key, api_key_id=run.api_key_id, request_id=run.request_id):
                has_started = await self._start_or_end(claimed)
        except Exception:
            # It must not end every other run. Recovery ends this one: nothing executes it.
            log.exception("run.start_crashed")
        finally:
            self._starting.pop(run.key).over.set()
            if not has_started:
                self.lease.forget(run.key)
                self.places.give_back()

    async def _start_or_end(self, claimed: ClaimedRun) -> bool:
        """Repeat it until the database answers; returns whether the run has started."""
        run, is_logged = claimed.run, False
        await self.supervisor.wait_ended(run.key)
        while not self.lease.is_lost(run.key):
            try:
                return await self._start_once(claimed)
            except (Unavailable, StatementFailed) as error:
                if not is_logged:
                    log.warning("run.start_delayed", reason=str(error))
                is_logged = True
            await asyncio.sleep(LONGEST_BACKOFF_S)
        log.warning("run.lost", run_id=run.key.run_id)
        return False

    async def _start_once(self, claimed: ClaimedRun) -> bool:
        run = claimed.run
        try:
            plan, request = await self._plan(run, claimed.request)
        except (Unavailable, StatementFailed):
            raise
        except Exception as error:
            if isinstance(error, AppError):
                # Such as a graph, model or tool that is no longer available.
                log.error("run.not_startable", reason=error.detail)  # noqa: TRY400
            else:
                log.exception("run.not_startable")
            outcome = NOT_FOUND if isinstance(error, ContentLost) else INTERNAL
            end = RunEnd(run, outcome, attempt=run.attempt)
            async with self.database.transaction() as tx:
                ended_at = await self.closer.store(tx, end)
            if ended_at is not None:
                await self.closer.publish(end, ended_at)
            return False
        if self.places.is_closed:
            async with self.database.write() as tx:
                await return_run(tx, run.key, run.attempt)
            return False
        commands: Sequence[dict[str, Any]] = ()
        if claimed.has_commands:
            async with self.database.write() as tx:
                commands = await take_queued_commands(tx, run.key)
        self._log_start(run)
        apply_queued(self.supervisor.start(plan, request), commands)
        return True

    def _log_start(self, run: RunRecord) -> None:
        if run.attempt == FIRST_ATTEMPT:
            self.metrics.run_started(waited_s=_waited_s(run))
        elif run.is_parked:
            log.info("run.continued", attempt=run.attempt)
        else:
            log.warning("run.recovered", resumed=True, attempt=run.attempt)

    async def _plan(self, run: RunRecord, stored: StoredDocument | None) -> tuple[RunPlan, GraphRunRequest]:
        if stored is None:
            async with self.database.read() as reader:
                stored = await stored_request(reader, run.key)
        if stored is None:
            raise LookupError(f"the run {run.key.run_id} has no request")
        request = await self.codec.decode(await self.codec.read(stored))
        plan = self.planner.plan(run.key, request, api_key_id=run.api_key_id, request_id=run.request_id)
        plan = replace(
            plan,
            attempt=run.attempt,
            timeout=_remaining(plan, run, now=self.supervisor.clock.database_now()),
            queue_wait=queue_wait_of(run),
            trace=self.telemetry.context_of(run.key, run.caller_trace),
            accepted_at=run.created_at,
            shown_answer=run.shown_answer,
            schemas=await self.schemas.prepare(request, plan.spec, account_id=None),
        )
        if run.state_key is not None:
            async with self.database.read() as reader:
                conversation = await find_conversation(reader, run.key.account_id, run.state_key)
            if conversation is not None:
                conversation = replace(
                    conversation,
                    turns=run.turn or conversation.turns,
                    # Meanwhile the conversation may continue on another branch.
                    session_id=run.session_id or conversation.session_id,
                )
                plan = replace(plan, conversation=conversation)
        if run.attempt == FIRST_ATTEMPT:
            plan = replace(plan, queued_position=run.queued_position)
        else:
            async with self.database.read() as reader:
                await recover_receipts(reader, self.receipts, run.key, attempt=run.attempt - 1)
            await self.receipts.flush(run.key, within_s=_RECEIPTS_WAIT_S)
            spent, kept = await self.reports.spent(run.key), await self._kept(run, plan.limits)
            plan = replace(plan, spent=spent, **kept)
        return plan, request

    async def _kept(self, run: RunRecord, limits: RunLimits) -> dict[str, Any]:
        """What the plan has of earlier attempts: calls that waited, meters, and what it was parked with."""
        async with self.database.snapshot() as reader:
            waits = await calls_of(reader, run.key)
            state = await parked_state(reader, run.key) if run.is_parked else None
        parked = None if state is None else await asyncio.to_thread(json.loads, state)
        raised = {"max_budget_usd": raised_limit(limits.max_budget_usd, waits)}
        return {
            "waits": waits,
            "parked": parked,
            "reported": run.reported,
            "limits": limits.model_copy(update=raised),
        }


def _waited_s(run: RunRecord) -> float:
    """By the database's clock only."""
    since = run.created_at if run.start_after is None else max(run.created_at, run.start_after)
    return 0.0 if run.started_at is None else (run.started_at - since).total_seconds()


def _remaining(plan: RunPlan, run: RunRecord, *, now: datetime) -> timedelta:
    """The time that the run has left, from its first attempt, without what it was parked."""
    if run.attempt == FIRST_ATTEMPT:
        return plan.timeout
    used = now - (run.started_at or now) - timedelta(seconds=run.parked_s)
    # The database's clock may have jumped: a run never gets more time than it had.
    return min(plan.timeout, max(timedelta(), plan.timeout - used))
