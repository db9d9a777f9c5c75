"""End the runs that no process carries, or have them go on here."""

import asyncio
from dataclasses import replace
from uuid import UUID

import structlog

from app.billing.ledger import CreditLedger
from app.db import Database, Transaction
from app.errors import AppError, Unavailable
from app.events import Done, RunError
from app.ids import RunKey
from app.requests import FinalUsage, GraphFinal
from app.runs.event_codec import encode_events
from app.runs.repository import RunRecord, finish_run, record_heartbeat, runs_without_heartbeat
from app.runs.resumption import RunResumption
from app.runs.supervisor import RunSupervisor
from app.runs.worker import close_log, last_position, terminal_events, with_positions
from app.streams.port import EventLog

log = structlog.get_logger(__name__)

HEARTBEAT_S = 5.0
HEARTBEAT_TIMEOUT_S = 20.0
"""A run without a heartbeat for this long is lost: its readers get their answer within 30 s."""


class RunRecovery:
    """Sends heartbeats for the runs carried here, and ends or resumes runs without a heartbeat."""

    def __init__(
        self,
        database: Database,
        event_log: EventLog,
        ledger: CreditLedger,
        resumption: RunResumption,
        *,
        supervisor: RunSupervisor,
        process_id: UUID,
    ) -> None:
        self._resumption = resumption
        self._database = database
        self._ledger = ledger
        self._log = event_log
        self._supervisor = supervisor
        self._process_id = process_id
        self._claimed: list[RunRecord] = []

    async def watch(self) -> None:
        """Beat and reap until cancelled; a database that is away is waited for."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                async with self._database.transaction() as tx:
                    await record_heartbeat(tx, self._process_id, self._own_runs())
                await self.recover()
            except Unavailable as error:
                log.warning("cannot look after runs now", reason=error.detail)
            except Exception:
                # Whatever it was, the next try may go well; the server must not end of it.
                log.exception("looking after runs failed")

    async def recover(self, *, older_than_s: float = HEARTBEAT_TIMEOUT_S) -> int:
        """End runs that have been silent for so long, or begin their next attempt; returns how many.

        Includes runs that this process has accepted but whose commit the database never confirmed.
        Zero seconds takes every run of another process: right only where there can be no other.
        """
        ended: list[RunRecord] = []
        async with self._database.transaction() as tx:
            orphans = await runs_without_heartbeat(tx, older_than_s=older_than_s, besides=self._own_runs())
            claimed = [run for run in orphans if await self._resumption.claim(tx, run)]
            for run in orphans:
                if run not in claimed:
                    await self._end(tx, run)
                    ended.append(run)
        self._claimed += claimed
        for run in ended:
            await self._close_log(run)
        await self._resume_claimed()
        return len(orphans)

    def _own_runs(self) -> list[RunKey]:
        return [*self._supervisor.active_runs(), *(run.key for run in self._claimed)]

    async def _resume_claimed(self) -> None:
        """Begin what was claimed; with the database away, at the next try."""
        while self._claimed:
            run = self._claimed[0]
            try:
                await self._resumption.resume(run)
            except Unavailable:
                raise
            except AppError as error:
                log.error("a run cannot go on", run_id=run.key.run_id, reason=error.detail)  # noqa: TRY400
                this_attempt = replace(run, attempt=run.attempt + 1)
                async with self._database.transaction() as tx:
                    await self._end(tx, this_attempt)
                await self._close_log(run)
            self._claimed.remove(run)

    async def _end(self, tx: Transaction, run: RunRecord) -> None:
        entries = [
            entry for entry in await self._log.read(run.key) if not isinstance(entry.event, RunError | Done)
        ]
        final = _failed_final(run)
        entries = [*entries, *with_positions(terminal_events(final), after=last_position(entries))]
        await self._ledger.release(tx, run.key)
        await finish_run(
            tx, run.key, attempt=run.attempt, final=final, report=None, events=encode_events(entries)
        )

    async def _close_log(self, run: RunRecord) -> None:
        log.error("ended a run that no process carries", run_id=run.key.run_id)
        await close_log(self._log, run.key, terminal_events(_failed_final(run)))


def _failed_final(run: RunRecord) -> GraphFinal:
    return GraphFinal(
        ok=False,
        run_id=run.key.run_id,
        request_id=run.request_id,
        content="",
        error="internal",
        finish_reason="error",
        usage=FinalUsage(),
    )
