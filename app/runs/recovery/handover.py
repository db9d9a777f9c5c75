"""RunHandover: leaves the runs of a process that stops to the other processes, as their next attempts."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from uuid import UUID

import structlog

from app.errors import Unavailable
from app.graphs.catalog import GraphCatalog
from app.platform.background import first_of
from app.platform.db import Database, StatementFailed
from app.platform.logs.context import for_run
from app.runs.commands.pending import pending_commands
from app.runs.commands.records import Command
from app.runs.dispatch.records import QueuedCommand
from app.runs.dispatch.repository import insert_queued_command
from app.runs.recovery.repository import begin_handover, lock_running_attempts
from app.runs.recovery.resumption import may_be_resumed
from app.runs.requeueing.repository import return_run
from app.runs.supervisor import ActiveRun, RunSupervisor
from app.streams.port import EventLog

log = structlog.get_logger(__name__)

_PAUSE_S = 0.5
"""How long the events may take that are being published; runs with others are not handed over."""

_FLUSH_S = 2.0
"""How long the relay may take to get the last events."""


@dataclass(frozen=True, slots=True)
class RunHandover:
    """Works like a takeover, by the process itself: it fences its attempts, then stops them.

    Another worker gets a run once its receipts are recorded; if this process dies before that, recovery does.
    """

    database: Database
    event_log: EventLog
    process_id: UUID
    supervisor: RunSupervisor
    graphs: GraphCatalog

    async def hand_over(self, *, within_s: float) -> None:
        """Hand over the active runs that may be resumed; the others go on.

        A run that has not stopped `within_s` is handed over nevertheless: it can publish and charge nothing.
        """
        try:
            given = await self._begin()
        except (Unavailable, StatementFailed) as error:
            log.error("run.handover_failed", reason=str(error))  # noqa: TRY400
            return
        await asyncio.gather(*(self._finish(run, commands, within_s) for run, commands in given))

    async def _begin(self) -> list[tuple[ActiveRun, Sequence[Command]]]:
        deadline = time.monotonic() + _PAUSE_S
        async with AsyncExitStack() as stack:
            attempts = {}
            for run in self.supervisor.active():
                # No answer may be published meanwhile: it would be given twice.
                paused = run.publisher.paused(within_s=max(0.0, deadline - time.monotonic()))
                is_leaving = run.control.has_ended or run.control.parking.is_set()
                if await stack.enter_async_context(paused) and not is_leaving:
                    attempts[run.plan.run] = run.plan.attempt
            async with self.database.transaction() as tx:
                running = await lock_running_attempts(tx, self.process_id, attempts)
                given = [run for run in running if await may_be_resumed(tx, run, self.graphs)]
                await begin_handover(tx, given)
            active = self.supervisor.hand_over(run.key for run in given)
        # Before the end of the execution answers the senders of messages.
        return [(run, pending_commands(run.control, run.plan.spec)) for run in active]

    async def _finish(self, run: ActiveRun, commands: Sequence[Command], within_s: float) -> None:
        key, attempt = run.plan.run, run.plan.attempt + 1
        with for_run(key):
            await asyncio.gather(
                self.event_log.hand_over(key, within_s=_FLUSH_S),
                first_of(run.ended.wait(), timeout_s=within_s),
            )
            try:
                async with self.database.transaction() as tx:
                    for command in commands:
                        stored = command.model_dump(mode="json", by_alias=True)
                        await insert_queued_command(tx, QueuedCommand(key, stored))
                    await return_run(tx, key, attempt)
            except (Unavailable, StatementFailed) as error:
                # It stays a run of this process, whose heartbeats end: recovery takes it over.
                log.error("run.handover_failed", reason=str(error))  # noqa: TRY400
            else:
                log.info("run.handed_over", attempt=attempt)
