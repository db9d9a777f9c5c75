"""RunCloser: ends runs that no process executes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.billing.credit.ledger import CreditLedger
from app.billing.receipts.delivery import debit_undelivered
from app.billing.receipts.open_message_delivery import recover_receipts
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reports.service import BillingReports
from app.errors import Unavailable
from app.events import ClientEvent, Queued
from app.executors.port import FIRST_ATTEMPT, RunOutcome
from app.ids import RunKey
from app.platform.db import StatementFailed, Transaction
from app.platform.logs.context import for_run
from app.platform.metrics.runs import RunMetrics
from app.platform.telemetry.service import Telemetry
from app.requests.outcome import FinalUsage, GraphFinal
from app.runs.dispatch.queue import RunQueue
from app.runs.events.codec import encode_events
from app.runs.events.ended import EndedRun, log_ended
from app.runs.events.stored import unstored_entries
from app.runs.events.terminal import (
    close_log,
    last_position,
    terminal_events,
    time_of_first,
    with_positions,
)
from app.runs.events.tracing import run_result, traced_record
from app.runs.records import RunRecord
from app.runs.repository import finish_run
from app.streams.port import EventLog, LogEntry
from app.usage.records import ChargedUsage


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run that no process executes."""

    run: RunRecord
    outcome: RunOutcome
    attempt: int
    """That publishes the end. For a run that was taken over the one after that of its row: if its process is
    alive after all, that one publishes no more."""
    events: Sequence[ClientEvent] = ()
    """Between `queued` and the terminal ones."""

    @property
    def final(self) -> GraphFinal:
        return GraphFinal(
            ok=False,
            run_id=self.run.key.run_id,
            request_id=self.run.request_id,
            content="",
            error=self.outcome.error,
            finish_reason=self.outcome.finish_reason,
            usage=FinalUsage(),
        )

    def entries(self, *, after: int = 0) -> list[LogEntry]:
        """The last events of the run, at the positions after this one."""
        last, position = [*self.events, *terminal_events(self.final)], self.run.queued_position
        if self.attempt > FIRST_ATTEMPT or position is None:
            return with_positions(last, after=after)
        # Readers have it already, from the run's row.
        queued = with_positions([Queued(position=position)], after=after, at=time_of_first(self.run))
        return [*queued, *with_positions(last, after=after + 1)]


@dataclass(frozen=True, slots=True)
class RunCloser:
    """Stores the end of runs that no process executes, then publishes it."""

    event_log: EventLog
    queue: RunQueue
    receipts: ReceiptQueue
    ledger: CreditLedger
    reports: BillingReports
    telemetry: Telemetry
    metrics: RunMetrics = field(default_factory=RunMetrics)

    async def store(self, tx: Transaction, end: RunEnd) -> datetime | None:
        """End the run and release its credit; returns when it has ended.

        None if it has ended before or is at another attempt.
        """
        run = end.run
        entries = [*await self.event_log.read(run.key)]
        after = last_position(entries, attempt=end.attempt)
        entries += end.entries(after=after)
        rows = encode_events(await unstored_entries(tx, run.key, entries))
        ended_at = await finish_run(
            tx, run.key, attempt=run.attempt, final=end.final, report=None, events=rows
        )
        if ended_at is not None:
            await self.queue.release_after(tx, run.key, run.state_key)
        # What the dead process has journalled on this machine, and what it has left in the database.
        await recover_receipts(tx, self.receipts, run.key, attempt=run.attempt)
        await debit_undelivered(tx, self.receipts, run.key)
        await self.ledger.release(tx, run.key)
        return ended_at

    async def publish(self, end: RunEnd, ended_at: datetime) -> None:
        """Publish the end that was stored to the readers, and log it."""
        run = end.run
        self.metrics.run_ended(run.graph_id, end.final)
        await close_log(
            self.event_log, run.key, end.entries(), ended_at=ended_at, attempt=end.attempt or None
        )
        context = self.telemetry.context_of(run.key, run.caller_trace)
        if context is not None:
            self.telemetry.end_unexecuted(traced_record(run, context), run_result(end.final))
        with for_run(run.key, api_key_id=run.api_key_id, request_id=run.request_id):
            trace_id, charged = None if context is None else context.trace_id, await self._charged(run.key)
            log_ended(EndedRun.of_record(run, end.final, charged=charged, trace_id=trace_id))

    async def _charged(self, run: RunKey) -> ChargedUsage | None:
        try:
            return (await self.reports.spent(run)).charged
        except (Unavailable, StatementFailed):
            # The run has ended anyway; its receipts can be looked up.
            return None
