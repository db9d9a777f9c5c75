"""End the runs whose process died."""

import asyncio
from uuid import UUID

import structlog

from app.billing.ledger import CreditLedger
from app.db import Database
from app.errors import Unavailable
from app.events import Done, RunError
from app.graph import FinalUsage, GraphFinal
from app.runs.history import pack
from app.runs.relay import close_log, numbered, terminal_events
from app.runs.repository import RunRecord, beat, finish_run, orphaned_runs
from app.streams.port import EventLog

log = structlog.get_logger(__name__)

BEAT_S = 5.0
SILENT_S = 20.0
"""A process not heard of for this long has died: readers get their answer within 30 s."""


class Reaper:
    """Beats for this process's runs and ends those of processes that stopped beating."""

    def __init__(
        self, database: Database, event_log: EventLog, ledger: CreditLedger, *, process_id: UUID
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._log = event_log
        self._process_id = process_id

    async def watch(self) -> None:
        """Beat and reap until cancelled; a database that is away is waited for."""
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                async with self._database.transaction() as tx:
                    await beat(tx, self._process_id)
                await self.reap()
            except Unavailable as error:
                log.warning("cannot look after runs now", reason=error.detail)
            except Exception:
                # Whatever it was, the next try may go well; the server must not end of it.
                log.exception("looking after runs failed")

    async def reap(self, *, silent_s: float = SILENT_S) -> int:
        """End runs that have been silent for so long; returns how many.

        Zero seconds ends every run of another process: right only where there can be no other.
        """
        async with self._database.transaction() as tx:
            orphans = await orphaned_runs(tx, silent_s=silent_s, not_of=self._process_id)
            for run in orphans:
                final = _died(run)
                told = [
                    entry
                    for entry in await self._log.read(run.key)
                    if not isinstance(entry.event, RunError | Done)
                ]
                entries = [*told, *numbered(terminal_events(final), after=len(told))]
                await self._ledger.release(tx, run.key)
                await finish_run(tx, run.key, final=final, meters=None, events=pack(entries))
        for run in orphans:
            log.error("ended a run whose process died", run_id=run.key.run_id)
            await close_log(self._log, run.key, terminal_events(_died(run)))
        return len(orphans)


def _died(run: RunRecord) -> GraphFinal:
    return GraphFinal(
        ok=False,
        run_id=run.key.run_id,
        request_id=run.request_id,
        content="",
        error="internal",
        finish_reason="error",
        usage=FinalUsage(),
    )
