"""RunWorker: executes one run from its first to its last event, independent of its readers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

import anyio
import structlog

from app.billing.credit.ledger import CreditLedger
from app.billing.receipts.delivery import debit_undelivered
from app.billing.receipts.queue import ReceiptQueue
from app.conversations.cuts.unseen_answers import leave_out_unseen
from app.errors import AppError, Unavailable
from app.events import MeterReport, Queued, RunStarted, RunWarning, Status
from app.executors import port
from app.executors.control import RunControl
from app.executors.tools.sessions import RunSession
from app.graphs.spec import GraphSpec
from app.ids import RunKey
from app.platform.clock.event_times import milliseconds
from app.platform.clock.lease import Lease
from app.platform.db import AttemptOver, Database, DatabaseUnavailable, NothingStored, Transaction
from app.platform.metrics.runs import RunMetrics
from app.platform.objects.storage import ContentLost, ContentsUnavailable
from app.platform.telemetry.run_trace import RunTrace
from app.requests.outcome import GraphFinal
from app.requests.run_request import GraphRunRequest
from app.requests.wire_models import WireModel
from app.runs.dispatch.queue import RunQueue
from app.runs.dispatch.records import QueuedCommand
from app.runs.dispatch.repository import insert_queued_command
from app.runs.events.codec import encode_events
from app.runs.events.ended import EndedRun, log_ended
from app.runs.events.output import RunOutput
from app.runs.events.publisher import RunEventPublisher
from app.runs.events.stored import unstored_entries
from app.runs.events.terminal import close_log, last_position, terminal_events, with_positions
from app.runs.events.timing import TimedEvents
from app.runs.events.tracing import run_result
from app.runs.evidence.recorder import EvidenceRecorder
from app.runs.records import StoredEvents
from app.runs.repository import finish_values, has_ended
from app.runs.requeueing.repository import requeue_run
from app.runs.waits.repository import park_run
from app.streams.port import EventLog, LogEntry, WriterFenced
from app.tools.extensions.loading import Extensions

log = structlog.get_logger(__name__)

STORE_RETRY_S = 1.0
"""The pause before another attempt to store a run that has ended."""

_FEW_BYTES = 64 * 1024
"""Up to this size events are encoded on the event loop: a thread would take longer to start."""

_FLUSH_S = 0.5
"""How long the end of a run waits until its receipts are in the database."""


@dataclass(frozen=True, slots=True)
class _FinishedRun:
    """A run that has ended and is to be stored."""

    plan: port.RunPlan
    control: RunControl
    final: GraphFinal
    report: MeterReport | None
    ended: EndedRun
    """What is logged of it."""
    output_bytes: int
    """About how large its events are."""
    trace: RunTrace | None
    evidence: EvidenceRecorder
    repeats: bool
    """Whether it begins another attempt instead."""
    parked: port.RunParked | None
    """With what it waits instead."""
    _failures: set[str] = field(default_factory=set)

    @property
    def run(self) -> RunKey:
        return self.plan.run

    @property
    def attempt(self) -> int:
        return self.plan.attempt

    def is_new(self, failure: str) -> bool:
        """Whether storing it has not failed for this reason yet."""
        is_new = failure not in self._failures
        self._failures.add(failure)
        return is_new


class _NotStored(Enum):
    """Why a run was not stored."""

    LATER = auto()
    """The database does not answer now."""
    FENCED = auto()
    """Another process has ended it, or executes a later attempt."""
    REPEATED = auto()
    """Its next attempt is ready to be executed by any process."""
    PARKED = auto()
    """It waits in no process."""


@dataclass(frozen=True, slots=True)
class RunWorker:
    """Executes runs: the only place that decides how a run ended."""

    database: Database
    executor: port.GraphExecutor
    event_log: EventLog
    complete: Callable[[GraphRunRequest, port.RunPlan], Awaitable[GraphRunRequest]]
    """Adds to a request what the runs before have left to pass on."""
    receipts: ReceiptQueue
    ledger: CreditLedger
    queue: RunQueue
    pending: Callable[[RunControl, GraphSpec], Sequence[WireModel]]
    """The commands to an attempt that the next one must get again."""
    max_output_bytes: int
    lease: Lease
    store_retry_s: float = STORE_RETRY_S
    metrics: RunMetrics = field(default_factory=RunMetrics)
    extensions: Extensions = field(default_factory=Extensions)

    async def execute(
        self,
        plan: port.RunPlan,
        request: GraphRunRequest,
        control: RunControl,
        *,
        publisher: RunEventPublisher,
        evidence: EvidenceRecorder,
        trace: RunTrace | None = None,
    ) -> GraphFinal | None:
        """Execute a run that is stored as running, and store its result.

        None for an attempt that another process has taken over, or that is followed by another one.
        """
        output = RunOutput(
            plan,
            control,
            publisher=publisher,
            receipts=self.receipts,
            max_bytes=self.max_output_bytes,
            trace=trace,
        )
        events = TimedEvents(output, self.metrics.attempt(plan.spec.id))
        self.receipts.count_charges(plan.run)
        session = RunSession(self.extensions.hooks, plan)
        context = port.RunContext(*(plan, control, events, self.lease, trace), evidence.keep, self.extensions)
        began, repeats, parked = time.monotonic(), False, None
        try:
            await self._start(plan, control, publisher)
            request = await self.complete(request, plan)
            await session.start()
            parked = await self._run(request, context, publisher)
        except port.ExecutionFailed as error:
            repeats = self._repeats(error, plan, control)
            output.outcome, output.budget = error.outcome, error.budget
        except Exception as error:  # noqa: BLE001 - a failed run must not end other runs
            output.outcome = _outcome_of(error)
        finally:
            with anyio.CancelScope(shield=True):
                await control.end(is_parked=parked is not None)
                await evidence.end()
                if trace is not None:
                    trace.close()
                await self.receipts.flush(plan.run, within_s=_FLUSH_S)
                finished = self._finished(
                    context, output, evidence, began=began, repeats=repeats, parked=parked
                )
                entries = await self._entries(finished)
                stored = await self._finish(finished, entries)
                if parked is None:
                    await session.end(finished.final)
        while stored is _NotStored.LATER:
            await asyncio.sleep(self.store_retry_s)
            stored = await self._finish(finished, entries)
        return finished.final if isinstance(stored, datetime) else None

    async def _start(self, plan: port.RunPlan, control: RunControl, publisher: RunEventPublisher) -> None:
        await publisher.resume()
        if plan.queued_position is not None:
            # Readers may have it already, from the run's row.
            at = None if plan.accepted_at is None else milliseconds(plan.accepted_at)
            await publisher.publish(Queued(position=plan.queued_position), at=at)
        if control.stop.is_set():
            raise port.ExecutionFailed(*port.ABORTED)
        if plan.shown_answer is not None and plan.conversation is not None:
            await leave_out_unseen(self.database, plan.conversation.transcript, plan.shown_answer)
        if plan.parked is not None:
            # Nothing begins anew: what readers have got stays open.
            await publisher.publish(Status(phase="tool_use", label="Going on with the answers"))
            return
        started = RunStarted(
            run_id=plan.run.run_id,
            graph_id=plan.spec.id,
            model=plan.model,
            attempt=plan.attempt,
        )
        await publisher.publish(started)
        if names := plan.ignored_client_tools:
            message = (
                f"The graph {plan.spec.id} does not take these tools of the client: they are not offered."
            )
            warning = RunWarning(code="client_tools_ignored", message=message, names=list(names))
            await publisher.publish_once(warning)

    async def _run(
        self, request: GraphRunRequest, context: port.RunContext, publisher: RunEventPublisher
    ) -> port.RunParked | None:
        """Execute the run until it has ended, or is parked."""
        try:
            await self.executor.run(request, context)
        except port.RunParked as parked:
            await publisher.publish(Status(phase="waiting", label="Waiting for an answer"))
            return parked
        return None

    def _repeats(self, error: port.ExecutionFailed, plan: port.RunPlan, control: RunControl) -> bool:
        """Whether a run whose agent failed is executed again: once, if no client can tell."""
        if not isinstance(error, port.AgentFailed):
            return False
        self.metrics.agent_failed(error.failure)
        is_untouched = not control.stop.is_set() and not control.inbox.pending()
        return error.is_silent and is_untouched and plan.attempt == port.FIRST_ATTEMPT

    def _finished(
        self,
        context: port.RunContext,
        output: RunOutput,
        evidence: EvidenceRecorder,
        *,
        began: float,
        repeats: bool,
        parked: port.RunParked | None,
    ) -> _FinishedRun:
        plan, control, trace = context.plan, context.control, context.trace
        final, duration = output.final(), timedelta(seconds=time.monotonic() - began)
        charged = self.receipts.counted_charges(plan.run)
        ended = EndedRun.of_plan(plan, final, duration=duration, charged=charged)
        return _FinishedRun(
            plan, control, final, output.report, ended, output.size, trace, evidence, repeats, parked
        )

    async def _entries(self, finished: _FinishedRun) -> list[LogEntry]:
        """The events of the run, with its end unless it is parked."""
        try:
            entries = await self.event_log.read(finished.run)
        except AppError as error:
            # Without the log only the end can be stored; each reader gets it after its last position.
            log.error("run.events_lost", reason=error.detail)  # noqa: TRY400
            entries = ()
        if finished.parked is not None:
            return list(entries)
        after = last_position(entries, attempt=finished.attempt)
        return [*entries, *with_positions(terminal_events(finished.final), after=after)]

    async def _finish(self, finished: _FinishedRun, entries: Sequence[LogEntry]) -> datetime | _NotStored:
        """Store the run, then publish its end.

        Not before: if this process ended in between, another would give the run another end.
        """
        stored = await self._store(finished, entries)
        if isinstance(stored, datetime):
            final = finished.final
            self.metrics.run_ended(finished.plan.spec.id, final, finished.report)
            end = with_positions(terminal_events(final), after=0)
            await close_log(self.event_log, finished.run, end, ended_at=stored)
            if finished.trace is not None:
                finished.trace.end(run_result(final))
            log_ended(finished.ended)
        elif stored is _NotStored.PARKED:
            await self.event_log.park(finished.run, within_s=_FLUSH_S)
            log.info("run.parked", calls=len(finished.control.parked_calls))
        return stored

    async def _store(self, finished: _FinishedRun, entries: Sequence[LogEntry]) -> datetime | _NotStored:
        """Store a finished run and release its credit; returns when it has ended."""
        try:
            goes_on = finished.repeats or finished.parked is not None
            if goes_on and (stored := await self._leave(finished, entries)) is not None:
                return stored
            try:
                ended_at = await self._end(finished, entries, may_share=True)
            except NothingStored:
                # Another run waits for this end since a moment ago.
                ended_at = await self._end(finished, entries, may_share=False)
        except Exception as error:  # noqa: BLE001 - the next attempt may succeed
            _log_failure(finished, error)
            return _NotStored.LATER
        if ended_at is not None:
            return ended_at
        if not finished.control.is_handed_over:
            self.event_log.abandon(finished.run)
            log.error("run.fenced", attempt=finished.attempt)
        return _NotStored.FENCED

    async def _leave(self, finished: _FinishedRun, entries: Sequence[LogEntry]) -> _NotStored | None:
        """Store a run that goes on later; None if it ends instead of being repeated."""
        async with self.database.transaction() as tx:
            await finished.evidence.store(tx)
            if finished.parked is not None:
                rows = await self._rows(tx, finished, entries)
                is_parked = await self._park(tx, finished, finished.parked, rows)
                return _NotStored.PARKED if is_parked else _NotStored.FENCED
            is_repeated = await requeue_run(tx, finished.run, attempt=finished.attempt)
            return _NotStored.REPEATED if is_repeated else None

    async def _end(
        self, finished: _FinishedRun, entries: Sequence[LogEntry], *, may_share: bool
    ) -> datetime | None:
        """Store the end of a run; returns when it has ended, None if it is at another attempt.

        `may_share`: see `end_run`.
        """
        run, attempt, evidence = finished.run, finished.attempt, finished.evidence
        is_debited, skills = not self.receipts.receipts_of(run), finished.plan.skills
        may_share = may_share and is_debited and attempt == port.FIRST_ATTEMPT
        async with self.database.write() if may_share else self.database.transaction() as tx:
            rows = await self._rows(tx, finished, entries)
            values = finish_values(attempt, finished.final, finished.report, skills=skills, events=rows)
            ended_at = await self.queue.end(
                *(tx, run, values), evidence=evidence.unstored, is_debited=is_debited, may_share=may_share
            )
            if ended_at is None:
                await evidence.store(tx)
            # If another process ended the run, calls of this one may have reserved credit since.
            if not is_debited if ended_at is not None else await has_ended(tx, run):
                await debit_undelivered(tx, self.receipts, run)
                await self.ledger.release(tx, run)
        return ended_at

    async def _rows(
        self, tx: Transaction, finished: _FinishedRun, entries: Sequence[LogEntry]
    ) -> Sequence[StoredEvents]:
        """What is to be stored of the events: without those that were stored when it was parked."""
        if finished.attempt > port.FIRST_ATTEMPT:
            entries = await unstored_entries(tx, finished.run, entries)
        if finished.output_bytes <= _FEW_BYTES:
            return encode_events(entries)
        return await asyncio.to_thread(encode_events, entries)

    async def _park(
        self, tx: Transaction, finished: _FinishedRun, parked: port.RunParked, rows: Sequence[StoredEvents]
    ) -> bool:
        """Let the run wait in no process, and release its credit; False if it is at another attempt."""
        run, control = finished.run, finished.control
        is_parked = await park_run(
            tx,
            run,
            attempt=finished.attempt,
            state=parked.state,
            calls=control.parked_calls,
            report=finished.report,
            events=rows,
        )
        if is_parked:
            for command in self.pending(control, finished.plan.spec):
                stored = command.model_dump(mode="json", by_alias=True)
                await insert_queued_command(tx, QueuedCommand(run, stored))
            # An answer may have been stored after the decision to park it.
            await self.queue.release_answered(tx, run)
            await debit_undelivered(tx, self.receipts, run)
            await self.ledger.release(tx, run)
        return is_parked


def _outcome_of(error: Exception) -> port.RunOutcome:
    """How a run ended that its executor did not end; logs why."""
    match error:
        case DatabaseUnavailable() | ContentsUnavailable():
            log.warning("run.database_unavailable", code=error.code)
            return port.NO_DATABASE
        case ContentLost():
            # Logged when it was read.
            return port.NOT_FOUND
        case AttemptOver() | WriterFenced():
            # Found out again, and logged, when the run is stored.
            return port.ABORTED
        case _:
            log.error("run.crashed", exc_info=error)
            return port.INTERNAL


def _log_failure(finished: _FinishedRun, error: Exception) -> None:
    """Log once why a run cannot be stored yet: it is tried again every second."""
    if not finished.is_new(str(error)):
        return
    if isinstance(error, Unavailable):
        log.warning("run.store_delayed", reason=error.detail)
    else:
        log.error("run.store_failed", exc_info=error)
