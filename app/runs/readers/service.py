"""RunReaders: cancels runs with `onDisconnect: cancel` that nothing reads any more."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import anyio
import structlog

from app.errors import NotFound, Unavailable
from app.ids import RunKey
from app.platform.background import forever
from app.platform.db import Database
from app.runs.readers import repository
from app.runs.readers.records import ReadersOfRun, Seen
from app.runs.records import RunRecord

log = structlog.get_logger(__name__)

_RENEWALS = 5
"""In the grace."""
_LONGEST_PAUSE_S = 2.0
_SWEEP_S = 60.0
_CANCELS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class _Observed:
    """What the rows of a run's readers were, and since when this process has seen no change in them."""

    seen: Seen
    since: float


class RunReaders:
    """Knows the readers of such runs on this process; watches the runs that it executes or that they left.

    Each process renews the rows of its readers. A run whose rows stay unchanged for the grace is cancelled,
    by the process that executes it or by one whose reader left it: so also if the process of its last reader
    was killed. While it is queued, each process watches it from its next sweep on. No clock is compared with
    that of another machine. A run that a later message of its conversation waits for is cancelled as soon as
    all processes have recorded that its readers have left. Other runs cost nothing.
    """

    def __init__(
        self,
        database: Database,
        *,
        process_id: UUID,
        executed: Callable[[], Iterable[RunKey]],
        cancel: Callable[[RunKey], Awaitable[object]],
        grace_s: float,
    ) -> None:
        """`executed` returns the runs with `onDisconnect: cancel` that this process executes."""
        self._database = database
        self._process_id = process_id
        self._executed = executed
        self._cancel = cancel
        self._pause_s = min(grace_s / _RENEWALS, _LONGEST_PAUSE_S)
        # The last renewal may be as old as the pause when the reader leaves.
        self._unchanged_s = grace_s + self._pause_s
        self._reading: Counter[RunKey] = Counter()
        self._watched: dict[RunKey, _Observed | None] = {}
        self._left: set[RunKey] = set()
        self._has_left = asyncio.Event()
        self._unread: set[RunKey] = set()
        self._has_unread = asyncio.Event()

    async def watch(self) -> None:
        """Renew the rows of readers, and cancel runs without any, until cancelled.

        A cancellation waits for the process that executes the run; the renewals do not wait for it.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(forever, self.check, self._pause_s, name="readers of runs"))
            tasks.start_soon(partial(forever, self.store_left, 0, name="readers that have left"))
            tasks.start_soon(partial(forever, self.stop_unread, 0, name="runs without readers"))
            tasks.start_soon(partial(forever, self.sweep, _SWEEP_S, name="readers of queued runs"))

    def counted(
        self, chunks: AsyncGenerator[bytes, None], *, run: RunKey, stops_unread: bool
    ) -> AsyncGenerator[bytes, None]:
        """The chunks of a response, whose client is a reader until they end or it disconnects."""
        return self._counted(chunks, run) if stops_unread else chunks

    async def _counted(self, chunks: AsyncGenerator[bytes, None], run: RunKey) -> AsyncGenerator[bytes, None]:
        async with self.reading(run, stops_unread=True), aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def reading(self, run: RunKey, *, stops_unread: bool) -> AsyncIterator[None]:
        """A client reads the run in the body; if that raises or is cancelled, it has disconnected."""
        if not stops_unread:
            yield
            return
        self._reading[run] += 1
        has_received_all = False
        try:
            # Also for one that leaves at once: a run without a row never had a reader.
            with anyio.CancelScope(shield=True):
                await self._arrive(run)
            yield
            has_received_all = True
        finally:
            self._reading[run] -= 1
            if not self._reading[run]:
                del self._reading[run]
            if not has_received_all:
                self._leave(run)
        await self._depart(run)

    async def cancel_left_before(self, run: RunRecord) -> None:
        """Cancel earlier runs of its conversation without readers: their person goes on with another message.

        Only a run that waits for others has any.
        """
        if run.status != "queued" or run.state_key is None:
            return
        async with self._database.read() as reader:
            left = await repository.runs_left_before(reader, run, self._process_id)
        self._end(each for each in left if each not in self._reading)

    async def check(self) -> None:
        """Renew the rows of readers, and note the runs without any; raises `Unavailable`."""
        for run in self._executed():
            self._watched.setdefault(run, None)
        reading, watched = list(self._reading), list(self._watched)
        if not reading and not watched:
            return
        try:
            async with self._database.transaction() as tx:
                if reading:
                    await repository.record_readers(tx, self._process_id, reading)
                found = await repository.readers_of(tx, watched)
            if ended := [run for run, readers in found.items() if readers.has_ended]:
                # By itself: it locks rows of other processes, and they lock those recorded here.
                async with self._database.write() as tx:
                    await repository.forget_readers(tx, ended)
        except Exception:
            # Readers could not renew either: what has been observed until now shows nothing.
            self._watched = dict.fromkeys(self._watched)
            raise
        self._end([run for run, readers in found.items() if self._is_unread(run, readers)])

    async def store_left(self) -> None:
        """Wait until there are runs whose last reader here has left, and store that."""
        await self._has_left.wait()
        self._has_left.clear()
        left, self._left = [run for run in self._left if run not in self._reading], set()
        if not left:
            return
        async with self._database.transaction() as tx:
            await repository.record_left(tx, self._process_id, left)
        if returned := [run for run in left if run in self._reading]:
            async with self._database.transaction() as tx:
                await repository.record_readers(tx, self._process_id, returned)

    async def stop_unread(self) -> None:
        """Wait until there are runs without readers, and cancel them."""
        await self._has_unread.wait()
        self._has_unread.clear()
        limiter = anyio.CapacityLimiter(_CANCELS_AT_ONCE)
        unread, self._unread = self._unread, set()
        async with anyio.create_task_group() as tasks:
            for run in unread:
                tasks.start_soon(self._stop, run, limiter)

    async def sweep(self) -> None:
        """Watch the runs in no process with readers, and delete the rows of runs that have ended.

        The process of such a run's last reader may have been killed, and that of an ended one's.
        """
        async with self._database.transaction() as tx:
            await repository.forget_readers_of_ended_runs(tx)
            for run in await repository.unexecuted_runs_with_readers(tx):
                self._watched.setdefault(run, None)

    def _is_unread(self, run: RunKey, readers: ReadersOfRun) -> bool:
        """Whether its last reader has been disconnected for longer than the grace period.

        A run that need not be watched is forgotten.
        """
        if readers.has_ended or not readers.seen:
            self._watched.pop(run, None)
            return False
        now, observed = asyncio.get_running_loop().time(), self._watched.get(run)
        if run in self._reading or observed is None or observed.seen != readers.seen:
            self._watched[run] = _Observed(readers.seen, now)
            return False
        return now - observed.since >= self._unchanged_s

    def _leave(self, run: RunKey) -> None:
        # Observed anew from now on.
        self._watched[run] = None
        self._left.add(run)
        self._has_left.set()

    def _end(self, unread: Iterable[RunKey]) -> None:
        for run in unread:
            self._watched.pop(run, None)
            self._unread.add(run)
            self._has_unread.set()

    async def _stop(self, run: RunKey, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            if run in self._reading:
                # A reader came back; when it leaves, the run is watched again.
                return
            log.info("run.unread", run_id=run.run_id)
            try:
                await self._cancel(run)
            except NotFound:
                return
            except Unavailable as error:
                # Observed anew from now on.
                self._watched.setdefault(run, None)
                log.warning("run.unread_not_cancelled", run_id=run.run_id, reason=error.detail)

    async def _arrive(self, run: RunKey) -> None:
        try:
            async with self._database.write() as tx:
                await repository.record_readers(tx, self._process_id, [run])
        except Unavailable as error:
            # The next renewal does it.
            log.warning("run.reader_not_recorded", run_id=run.run_id, reason=error.detail)

    async def _depart(self, run: RunKey) -> None:
        """The response was complete: the client has what there is, so no disconnect is to be noticed."""
        try:
            async with self._database.write() as tx:
                await repository.forget_readers(tx, [run])
        except Unavailable as error:
            log.warning("run.reader_not_recorded", run_id=run.run_id, reason=error.detail)
