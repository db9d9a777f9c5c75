"""RunRecovery: heartbeats for this process's runs; runs without a heartbeat are resumed or failed."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import anyio
import structlog

from app.background import forever
from app.billing.credit.ledger import CreditLedger
from app.billing.receipts.delivery import debit_undelivered
from app.billing.receipts.open_message_delivery import recover_receipts
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reports.service import BillingReports
from app.clock.boot_time import boot_time
from app.clock.jumps import JumpDetector
from app.clock.lease import Lease
from app.conversations.repository import find_conversation
from app.db import Database, StatementFailed, Transaction
from app.errors import AppError, Unavailable
from app.events import Done, RunError
from app.executors.port import ABORTED, INTERNAL, RunPlan
from app.ids import RunKey
from app.requests import FinalUsage, GraphFinal
from app.runs.dispatcher import RunDispatcher
from app.runs.events.codec import encode_events
from app.runs.events.terminal import close_log, last_position, terminal_events, with_positions
from app.runs.planner import RunPlanner
from app.runs.records import RunRecord
from app.runs.recovery.peers import Peers
from app.runs.recovery.repository import (
    cancelled_runs,
    claim_run,
    end_connections,
    lost_runs,
    processes_without_heartbeat,
    record_heartbeat,
    record_takeovers,
    runs_without_heartbeat,
)
from app.runs.repository import finish_run, stored_request
from app.runs.requests.codec import RequestCodec
from app.runs.supervisor import RunSupervisor
from app.streams.port import EventLog

log = structlog.get_logger(__name__)

_HEARTBEATS = 3
"""In the time of a lease."""

_TAKEOVER = 4 / 3
"""After so many times that of a lease without a heartbeat, a run is taken over: what its process began just
before its lease ended is over by then. With the default lease its readers get its end within 30 s."""

_CLOCK_TOLERANCE = 2 / 3
"""By how much of a lease the database's clock may differ between two heartbeats from the time that passed."""

MAX_ATTEMPTS = 3
"""Limits how many processes can be crashed by one run."""

_RECEIPTS_WAIT_S = 2.0
"""How long a resumed run waits for the receipts of its earlier attempts."""


class RunRecovery:
    """Resumes runs whose process died if the graph has `retry: true`; ends the others with `internal`.

    Those that were cancelled end with `aborted`.
    """

    def __init__(
        self,
        database: Database,
        event_log: EventLog,
        *,
        planner: RunPlanner,
        dispatcher: RunDispatcher,
        supervisor: RunSupervisor,
        ledger: CreditLedger,
        receipts: ReceiptQueue,
        reports: BillingReports,
        codec: RequestCodec,
        lease: Lease,
        process_id: UUID,
        peers: Peers | None = None,
    ) -> None:
        """`peers` are the other processes; None: there is none that could answer."""
        self._database = database
        self._log = event_log
        self._planner = planner
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._ledger = ledger
        self._receipts = receipts
        self._reports = reports
        self._codec = codec
        self._lease = lease
        self._process_id = process_id
        self._peers = peers
        self._heartbeat_s = lease.term_s / _HEARTBEATS
        self._takeover_s = lease.term_s * _TAKEOVER
        self._jumps = JumpDetector(lease.term_s * _CLOCK_TOLERANCE)
        self._last_beat = -math.inf
        self._recover_from = math.inf
        self._claimed: list[RunRecord] = []
        """Runs of this process that have not been resumed yet."""

    async def watch(self) -> None:
        """Send heartbeats and recover runs until cancelled. No heartbeat waits for a recovery."""
        async with anyio.create_task_group() as tasks:
            for work, name in ((self.send_heartbeat, "heartbeats"), (self.take_over, "run recovery")):
                tasks.start_soon(partial(forever, work, self._heartbeat_s, name=name))

    async def recover(
        self, *, timeout_s: float | None = None, unless: Callable[[], bool] = lambda: False
    ) -> int:
        """Resume or fail the runs of processes that died; returns how many there were.

        Those are runs without a heartbeat for `timeout_s` whose process does not answer, including runs that
        this process accepted but whose commit the database never confirmed. With a timeout of zero every run
        of another process is taken: only correct while there is no other. `unless` is called once the
        database has answered: it may have taken so long that the answer proves nothing.
        """
        timeout_s = self._takeover_s if timeout_s is None else timeout_s
        lost = await self._lost_processes(timeout_s)
        recovered = 0 if not lost or unless() else await self._recover_runs_of(lost, timeout_s, unless=unless)
        # Also those that could not be resumed before, because the database was unavailable.
        await self._resume_claimed()
        return recovered

    async def _recover_runs_of(
        self, lost: Sequence[UUID], timeout_s: float, *, unless: Callable[[], bool]
    ) -> int:
        await self._end_connections([each for each in lost if each != self._process_id])
        failed: list[RunRecord] = []
        async with self._database.transaction() as tx:
            orphans = await runs_without_heartbeat(
                tx, timeout_s=timeout_s, of_processes=lost, besides=self._own_runs()
            )
            if unless():
                return 0
            await record_takeovers(tx, orphans)
            claimed = [run for run in orphans if await self._claim(tx, run)]
            for run in orphans:
                if run not in claimed:
                    await self._fail(tx, run)
                    failed.append(run)
        self._claimed += claimed
        for run in failed:
            await self._close_log(run)
        return len(orphans)

    async def send_heartbeat(self) -> None:
        """Set the heartbeat of this process's runs, stop lost and cancelled ones, and renew the lease."""
        began = boot_time()
        async with self._database.transaction() as tx:
            now = await record_heartbeat(tx, self._process_id, self._own_runs())
            lost = await lost_runs(tx, self._supervisor.active_attempts())
            cancelled = await cancelled_runs(tx, self._process_id)
        # This process stood still for too long: what they do now would come twice.
        self._supervisor.lose(lost)
        self._lease.renew(since=began)
        # The relay may have been away, or this process too busy.
        self._supervisor.cancel(cancelled)
        has_jumped = self._jumps.has_jumped(now)
        if has_jumped:
            log.critical("clock.jumped", clock="database", reading=now)
        if has_jumped or began - self._last_beat > self._takeover_s / 2:
            self._recover_from = boot_time() + self._takeover_s
        self._last_beat = began

    async def take_over(self) -> None:
        """Recover runs, unless their heartbeats may be missing for another reason.

        The other processes may have lost the database as well, or its clock has jumped: then they get the
        time to send a heartbeat.
        """
        if not self._has_missed_heartbeats():
            await self.recover(unless=self._has_missed_heartbeats)

    def _has_missed_heartbeats(self) -> bool:
        """Whether others may have missed theirs for the same reason."""
        now = boot_time()
        return now < self._recover_from or now - self._last_beat > self._takeover_s / 2

    async def _lost_processes(self, timeout_s: float) -> list[UUID]:
        """The processes of runs without a heartbeat that are known not to execute them any more."""
        async with self._database.read() as reader:
            silent = await processes_without_heartbeat(reader, timeout_s=timeout_s, besides=self._own_runs())
        alive = await asyncio.gather(*(self._may_be_alive(each) for each in silent))
        return [process for process, is_alive in zip(silent, alive, strict=True) if not is_alive]

    async def _end_connections(self, processes: Sequence[UUID]) -> None:
        try:
            async with self._database.write() as tx:
                await end_connections(tx, processes)
        except (Unavailable, StatementFailed) as error:
            # Only a process that stands still within a transaction needs it.
            log.warning("database.connections_not_ended", reason=str(error))

    async def _may_be_alive(self, process_id: UUID) -> bool:
        if self._peers is None or process_id == self._process_id:
            return False
        return await self._peers.may_be_alive(process_id)

    def _own_runs(self) -> list[RunKey]:
        return [*self._supervisor.active_attempts(), *(run.key for run in self._claimed)]

    async def _claim(self, tx: Transaction, run: RunRecord) -> bool:
        """Assign the run to this process, if it may be resumed.

        Its graph must have `retry: true`, its conversation must hold the messages so far, and there
        must be no stop request.
        """
        if run.state_key is None or run.interruption is not None or run.attempt + 1 >= MAX_ATTEMPTS:
            return False
        spec = self._planner.graphs.find(run.graph_id)
        if spec is None or not spec.retry:
            return False
        if await find_conversation(tx, run.key.account_id, run.state_key) is None:
            return False
        await claim_run(tx, run.key, process_id=self._process_id)
        return True

    async def _resume_claimed(self) -> None:
        """Start the next attempt of each claimed run; without the database, they stay claimed."""
        while self._claimed:
            run = self._claimed[0]
            try:
                await self._resume(run)
            except Unavailable:
                raise
            except AppError as error:
                log.error("run.resume_failed", run_id=run.key.run_id, reason=error.detail)  # noqa: TRY400
                this_attempt = replace(run, attempt=run.attempt + 1)
                async with self._database.transaction() as tx:
                    has_failed = await self._fail(tx, this_attempt)
                if has_failed:
                    await self._close_log(this_attempt)
            self._claimed.remove(run)

    async def _resume(self, run: RunRecord) -> None:
        plan = await self._plan_next_attempt(run)
        self._dispatcher.admit(run.key.account_id)
        self._supervisor.start(plan)
        log.warning("run.recovered", run_id=run.key.run_id, resumed=True, attempt=plan.attempt)

    async def _plan_next_attempt(self, run: RunRecord) -> RunPlan:
        """Raises the `AppError` of a graph, model or tool that is no longer available."""
        async with self._database.snapshot() as reader:
            text = await stored_request(reader, run.key)
            conversation = await find_conversation(reader, run.key.account_id, run.state_key or "")
        request = await self._codec.decode(text)
        async with self._database.read() as reader:
            await recover_receipts(reader, self._receipts, run.key, attempt=run.attempt)
        await self._receipts.flush(run.key, within_s=_RECEIPTS_WAIT_S)
        plan = self._planner.plan(run.key, request, api_key_id=run.api_key_id, request_id=run.request_id)
        started_at = run.started_at or datetime.now(UTC)
        # The clocks of two machines: a run never gets more time than it had.
        remaining = min(plan.timeout, max(timedelta(), plan.timeout - (datetime.now(UTC) - started_at)))
        if conversation is not None:
            conversation = replace(conversation, turns=run.turn or conversation.turns)
        return replace(
            plan,
            attempt=run.attempt + 1,
            timeout=remaining,
            spent=await self._reports.spent(run.key),
            conversation=conversation,
        )

    async def _fail(self, tx: Transaction, run: RunRecord) -> bool:
        """End the run; False if another process has taken it over meanwhile."""
        entries = [
            entry for entry in await self._log.read(run.key) if not isinstance(entry.event, RunError | Done)
        ]
        final = _failed_final(run)
        after = last_position(entries, attempt=run.attempt + 1)
        entries += with_positions(terminal_events(final), after=after)
        # What the dead process has journalled on this machine, and what it has left in the database.
        await recover_receipts(tx, self._receipts, run.key, attempt=run.attempt)
        await debit_undelivered(tx, self._receipts, run.key)
        await self._ledger.release(tx, run.key)
        return await finish_run(
            tx, run.key, attempt=run.attempt, final=final, report=None, events=encode_events(entries)
        )

    async def _close_log(self, run: RunRecord) -> None:
        log.warning("run.recovered", run_id=run.key.run_id, resumed=False, attempt=run.attempt)
        terminal = terminal_events(_failed_final(run))
        # As its next attempt: if its process is alive after all, that one writes no more.
        await close_log(self._log, run.key, terminal, attempt=run.attempt + 1)


def _failed_final(run: RunRecord) -> GraphFinal:
    outcome = ABORTED if run.is_cancelled else INTERNAL
    return GraphFinal(
        ok=False,
        run_id=run.key.run_id,
        request_id=run.request_id,
        content="",
        error=outcome.error,
        finish_reason=outcome.finish_reason,
        usage=FinalUsage(),
    )
