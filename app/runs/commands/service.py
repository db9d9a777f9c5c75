"""RunCommands: sends commands to running runs, in this process or in another one."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal
from uuid import UUID

import anyio
import structlog

from app.errors import AppError, NotFound, Unavailable
from app.executors.inbox import MessageLimits, MessageQueueFull, RunEnded
from app.ids import RunKey
from app.platform.db import Database
from app.runs.commands.answers import NotApplied
from app.runs.commands.application import apply
from app.runs.commands.queued import QueuedRuns
from app.runs.commands.records import Command, Stop, size_of
from app.runs.commands.remote import CommandSender, RemoteCommand
from app.runs.commands.repository import request_cancel
from app.runs.commands.waiting import WaitingCommands
from app.runs.records import UNEXECUTED, RunRecord
from app.runs.repository import find_run
from app.runs.supervisor import ActiveRun, RunSupervisor

log = structlog.get_logger(__name__)

WITHIN_S = 10.0
"""How long a command is sent again and again; the answer to it is remembered for longer."""
CANCEL_WITHIN_S = 2.0
"""The same for a cancellation, which is stored: the run's process also sees it with its next heartbeat."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5
_CANCELS_AT_ONCE = 32
_CANCEL = Stop(kind="cancel", is_stored=True)


class RunNotFound(NotFound):
    """There is no run with this id."""

    code = "run_not_found"


class RunOnAnotherServer(Unavailable):
    """The server process that executes this run does not answer; try again later."""

    code = "carried_elsewhere"


@dataclass(slots=True)
class RunCommands:
    """Applies commands to runs of this process, and sends those for other runs to their processes."""

    database: Database
    supervisor: RunSupervisor
    process_id: UUID
    queued: QueuedRuns
    limits: InitVar[MessageLimits]
    """Also apply to the commands to one run that wait here for an answer."""
    sender: CommandSender | None = None
    """Sends them to other processes; None: there are none."""
    within_s: float = WITHIN_S
    cancel_within_s: float = CANCEL_WITHIN_S
    _waiting: WaitingCommands = field(init=False)

    def __post_init__(self, limits: MessageLimits) -> None:
        self._waiting = WaitingCommands(limits)

    async def stop(
        self, run: RunKey, kind: Literal["interrupt", "cancel"], *, after_tool: bool = False
    ) -> RunRecord:
        """Request a run to stop; one that has ended stays as it is.

        A cancellation takes effect in any case: it is stored before it is sent to another process. Raises
        `RunNotFound`; for an interrupt also `RunOnAnotherServer` and `MessageQueueFull`.
        """
        if kind == "cancel":
            return await self._cancel(run)
        with suppress(RunEnded):
            await self._deliver(
                await self._get(run), Stop(kind=kind, after_tool=after_tool), within_s=self.within_s
            )
        return await self._get(run)

    async def submit(self, run: RunKey, command: Command) -> dict[str, Any]:
        """Apply a command and return its result.

        Raises `RunNotFound`, `RunEnded`, what the command itself raises, and `RunOnAnotherServer` if
        the process that executes the run does not answer.
        """
        return await self._deliver(await self._get(run), command, within_s=self.within_s)

    async def deliver_cancels(self, runs: Sequence[RunKey]) -> None:
        """Stop runs whose cancellation is stored at once, as far as their processes answer.

        Otherwise the next heartbeat of a run's process does so, or the maintenance of the queue.
        """
        limiter = anyio.CapacityLimiter(_CANCELS_AT_ONCE)

        async def deliver(run: RunKey) -> None:
            async with limiter:
                try:
                    await self._deliver_cancel(await self._get(run))
                except AppError as error:
                    log.warning("command.not_answered", run_id=run.run_id, reason=error.code)

        with anyio.move_on_after(self.cancel_within_s):
            async with anyio.create_task_group() as tasks:
                for run in runs:
                    tasks.start_soon(deliver, run)

    async def _cancel(self, run: RunKey) -> RunRecord:
        if self.supervisor.is_active(run) and (active := self._find_here(await self._get(run))) is not None:
            with suppress(NotApplied):
                await apply(active, Stop(kind="cancel"))
                return await self._get(run)
        async with self.database.write() as tx:
            cancelled = await request_cancel(tx, run)
        record = cancelled or await self._get(run)
        if record.finished:
            return record
        if record.status in UNEXECUTED and await self.queued.stop(run, "cancel"):
            return await self._get(run)
        await self._deliver_cancel(record)
        return cancelled or await self._get(run)

    async def _deliver_cancel(self, record: RunRecord) -> None:
        # Where it is not delivered, the process that executes the run gets it with its next heartbeat.
        with suppress(RunEnded, RunOnAnotherServer, MessageQueueFull):
            await self._deliver(record, _CANCEL, within_s=self.cancel_within_s)

    async def _get(self, run: RunKey) -> RunRecord:
        async with self.database.read() as reader:
            record = await find_run(reader, run)
        if record is None:
            raise RunNotFound
        return record

    def _find_here(self, record: RunRecord) -> ActiveRun | None:
        # After standing still, this process may not know yet that another one has taken its run over.
        return self.supervisor.find(record.key) if record.process_id == self.process_id else None

    async def _deliver(self, record: RunRecord, command: Command, *, within_s: float) -> dict[str, Any]:
        """Apply the command where the run is executed, wherever that is meanwhile."""
        remote = None if self.sender is None else self.sender.prepare(record.key, command)
        is_here = self._find_here(record) is not None
        with nullcontext() if is_here else self._waiting.one_more(record.key, size_of(command)):
            try:
                return await self._repeat(record, command, remote, within_s=within_s)
            finally:
                if remote is not None:
                    await remote.discard()

    async def _repeat(
        self, record: RunRecord, command: Command, remote: RemoteCommand | None, *, within_s: float
    ) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + within_s, _FIRST_PAUSE_S
        while True:
            try:
                return await self._apply(record, command, remote, until=until)
            except NotApplied as error:
                reason = error.reason
            if reason != "pending":
                if loop.time() + pause_s > until:
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            elif loop.time() > until:
                break
            record = await self._get(record.key)
        log.warning("command.not_answered", run_id=record.key.run_id, reason=reason)
        raise RunOnAnotherServer(retry_after_s=1)

    async def _apply(
        self, record: RunRecord, command: Command, remote: RemoteCommand | None, *, until: float
    ) -> dict[str, Any]:
        """Try once; raises `NotApplied`."""
        if (active := self._find_here(record)) is not None:
            return await apply(active, command)
        if record.finished:
            raise RunEnded
        if record.status in UNEXECUTED:
            return await self.queued.apply(record.key, command)
        if remote is None or record.process_id is None or record.process_id == self.process_id:
            # It is about to begin, or has just ended.
            raise NotApplied("not_here")
        return (await remote.send(record.process_id, until=until)).unpack()
