"""RunRecovery: runs whose process died begin their next attempt in another worker, or are ended."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

import anyio
import structlog

from app.errors import Unavailable
from app.executors.port import ABORTED, INTERNAL
from app.graphs.catalog import GraphCatalog
from app.platform.background import forever
from app.platform.db import Database, StatementFailed
from app.platform.logs.context import for_run
from app.runs.closing import RunCloser, RunEnd
from app.runs.records import RunRecord
from app.runs.recovery import repository
from app.runs.recovery.heartbeat import HEARTBEATS, Heartbeat
from app.runs.recovery.peers import Peers
from app.runs.recovery.resumption import may_be_resumed
from app.runs.requeueing.repository import requeue_run

log = structlog.get_logger(__name__)

_MARGIN_S = 1.0
"""How long after the end of its process's lease a run is taken over; a third of a shorter lease."""

_FORGET_EVERY_S = 60.0


class RunRecovery:
    """Resumes runs whose process died if the graph has `retry: true`; ends the others with `internal`.

    Those that were cancelled end with `aborted`.
    """

    def __init__(
        self,
        database: Database,
        *,
        heartbeat: Heartbeat,
        closer: RunCloser,
        graphs: GraphCatalog,
        process_id: UUID,
        term_s: float,
        peers: Peers | None = None,
    ) -> None:
        """`term_s` is that of the lease; `peers` are the other processes, None: none that could answer."""
        self._database = database
        self._heartbeat = heartbeat
        self._closer = closer
        self._graphs = graphs
        self._process_id = process_id
        self._peers = peers
        self._heartbeat_s = term_s / HEARTBEATS
        self._margin_s = min(_MARGIN_S, self._heartbeat_s)
        self._takeover_s = term_s + self._margin_s

    async def watch(self) -> None:
        """Send heartbeats and recover runs until cancelled. No heartbeat waits for a recovery."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(forever, self._heartbeat.send, self._heartbeat_s, name="heartbeats"))
            tasks.start_soon(partial(forever, self.take_over, self._margin_s, name="run recovery"))
            tasks.start_soon(partial(forever, self.forget_dead, _FORGET_EVERY_S, name="dead processes"))

    async def take_over(self) -> None:
        """Recover runs, unless their heartbeats may be missing for another reason.

        The other processes may have lost the database as well, or its clock has jumped: then they get the
        time to send a heartbeat.
        """
        if not self._may_misjudge():
            await self.recover(unless=self._may_misjudge)

    async def forget_dead(self) -> None:
        """Delete the rows of processes that died long ago and of which no run is left."""
        async with self._database.write() as tx:
            await repository.delete_dead_workers(tx)

    async def recover(self, *, is_alone: bool = False, unless: Callable[[], bool] = lambda: False) -> int:
        """Resume or end the runs of processes that died; returns how many there were.

        Those are runs whose process has sent no heartbeat that counts and does not answer, and those that
        this process started but whose commit the database never confirmed. `is_alone`: every run of another
        process is taken; only correct while there is no other. `unless` is called once the database has
        answered: it may have taken so long that the answer proves nothing.
        """
        margin_s = None if is_alone else self._margin_s
        async with self._database.read() as reader:
            silent = await repository.processes_without_heartbeat(
                reader, margin_s=margin_s, besides=self._process_id
            )
        alive = await asyncio.gather(*(self._may_be_alive(each) for each in silent))
        lost = [process for process, is_alive in zip(silent, alive, strict=True) if not is_alive]
        unconfirmed = self._heartbeat.unconfirmed(self._takeover_s)
        if (not lost and not unconfirmed) or unless():
            return 0
        await self._end_connections(lost)
        async with self._database.transaction() as tx:
            orphans = await repository.lock_lost_runs(tx, margin_s=margin_s, of_processes=lost)
            orphans += await repository.lock_unconfirmed_runs(tx, self._process_id, unconfirmed)
            if unless():
                return 0
            resumed = [run for run in orphans if await may_be_resumed(tx, run, self._graphs)]
            await repository.record_takeovers(tx, resumed)
            for run in resumed:
                await requeue_run(tx, run.key)
        for run in orphans:
            if run not in resumed:
                await self._end(run)
        return len(orphans)

    def _may_misjudge(self) -> bool:
        """Whether others may have missed their heartbeats for a reason that this process shares."""
        return self._heartbeat.continuous_s < self._takeover_s

    async def _end_connections(self, processes: Sequence[UUID]) -> None:
        try:
            async with self._database.write() as tx:
                await repository.end_connections(tx, processes)
        except (Unavailable, StatementFailed) as error:
            # Only a process that stands still within a transaction needs it.
            log.warning("database.connections_not_ended", reason=str(error))

    async def _may_be_alive(self, process_id: UUID) -> bool:
        return self._peers is not None and await self._peers.may_be_alive(process_id)

    async def _end(self, run: RunRecord) -> None:
        with for_run(run.key, api_key_id=run.api_key_id, request_id=run.request_id):
            await self._end_one(run)

    async def _end_one(self, run: RunRecord) -> None:
        # Each in a transaction of its own: those that lock the queues of several accounts could deadlock.
        end = RunEnd(run, ABORTED if run.is_cancelled else INTERNAL, attempt=run.attempt + 1)
        async with self._database.transaction() as tx:
            if not await repository.lock_attempt(tx, run.key, run.attempt):
                return
            await repository.record_takeovers(tx, [run])
            ended_at = await self._closer.store(tx, end)
        if ended_at is None:
            return
        log.warning("run.recovered", run_id=run.key.run_id, resumed=False, attempt=run.attempt)
        await self._closer.publish(end, ended_at)
