"""RunService: everything one can do with a run."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID, uuid5

import structlog
from anyio.abc import TaskGroup

from app.billing.ledger import CreditLedger
from app.billing.receipts import ReceiptWriter
from app.db import Database
from app.errors import AppError, Conflict, NotFound, Unavailable
from app.events import Done, Queued, RunError
from app.executors.port import RunContext
from app.graph import GraphFinal, GraphRunRequest
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.paging import Cursor
from app.runs.history import unpack
from app.runs.plan import Planner
from app.runs.queue import RETRY_AFTER_S, RunQueue
from app.runs.relay import Relay, numbered
from app.runs.repository import NewRun, RunRecord, find_run, insert_run, newest_runs, stored_events
from app.streams.port import EventLog, LogEntry

log = structlog.get_logger(__name__)

_ASK_AGAIN_S = 1.0
"""How often a reader of another process's run looks whether that run has ended."""


class RunNotFound(NotFound):
    """There is no run with this id."""

    code = "run_not_found"


class RunIdTaken(Conflict):
    """A run with this id exists and was asked for something else."""

    code = "run_id_taken"


class ShuttingDown(Unavailable):
    """This server is shutting down; try again later."""

    code = "shutting_down"


class CarriedElsewhere(Unavailable):
    """Another server process carries this run; it cannot be stopped from here."""

    code = "carried_elsewhere"


class RunLost(Unavailable):
    """How this run ended cannot be told now; ask again."""

    code = "run_lost"


@dataclass(slots=True)
class _LiveRun:
    """A run this process carries."""

    stop: asyncio.Event
    final: GraphFinal | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class RunService:
    """Starts runs, follows them, stops them."""

    def __init__(
        self,
        database: Database,
        relay: Relay,
        event_log: EventLog,
        *,
        receipts: ReceiptWriter,
        ledger: CreditLedger,
        planner: Planner,
        queue: RunQueue,
        tasks: TaskGroup,
        process_id: UUID,
    ) -> None:
        """`tasks` outlives every request: it is where runs go on when their reader has left."""
        self._database = database
        self._relay = relay
        self._log = event_log
        self._receipts = receipts
        self._ledger = ledger
        self._planner = planner
        self._queue = queue
        self._tasks = tasks
        self._process_id = process_id
        self._live: dict[RunKey, _LiveRun] = {}
        self._closing = False

    async def start(
        self,
        account_id: AccountId,
        api_key_id: ApiKeyId,
        request: GraphRunRequest,
        *,
        request_id: str | None,
        idempotency_key: str | None = None,
    ) -> RunRecord:
        """Accept a run, or join the one that has its id and was asked for the same.

        Raises `RunIdTaken`, `GraphNotFound`, `Invalid`, `InsufficientCredits`, `QueueFull`,
        `ShuttingDown`, `JournalUnavailable`.
        """
        run = RunKey(account_id, _run_id(account_id, request, idempotency_key))
        fingerprint = _fingerprint(request)
        if (existing := await self._find(run)) is not None:
            return _joined(existing, fingerprint)
        context = self._planner.plan(run, request, api_key_id=api_key_id, request_id=request_id)
        self._require_open()
        with self._queue.admission(account_id) as admitted:
            record = await self._insert(request, context, fingerprint)
            if record is None:
                return _joined(await self.get(run), fingerprint)
            admitted.pop_all()
        self._live[run] = _LiveRun(stop=context.stop)
        self._tasks.start_soon(self._carry, request, context)
        return record

    async def get(self, run: RunKey) -> RunRecord:
        """The run as it stands; raises `RunNotFound`."""
        if (record := await self._find(run)) is None:
            raise RunNotFound
        return record

    async def list_runs(
        self,
        account_id: AccountId,
        *,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[RunRecord], str | None]:
        """Runs of an account, newest first, and the cursor of the next page."""
        before = None if cursor is None else Cursor.decode(cursor)
        async with self._database.snapshot() as reader:
            found = await newest_runs(reader, account_id, limit=limit + 1, before=before)
        if len(found) <= limit:
            return found, None
        last = found[limit - 1]
        return found[:limit], Cursor(last.created_at, last.key.run_id).encode()

    async def follow(
        self,
        run: RunKey,
        *,
        after: int = 0,
    ) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Yield a run's events after a position, everything ready at once, until `Done`.

        Raises `RunNotFound` before the first batch. Leaving early changes nothing.
        """
        if not (await self.get(run)).finished:
            async with aclosing(self._follow_log(run, after)) as batches:
                async for batch in batches:
                    yield batch
                    after = batch[-1].position
                    if isinstance(batch[-1].event, Done):
                        return
        if kept := await self._kept(run, after):
            yield kept

    async def wait(self, run: RunKey) -> GraphFinal:
        """How the run ended, once it has."""
        if (live := self._live.get(run)) is not None:
            await live.ended.wait()
            if live.final is not None:
                return live.final
        async for _ in self.follow(run):
            pass
        final = (await self.get(run)).final
        if final is None:
            raise RunLost
        return final

    async def cancel(self, run: RunKey) -> RunRecord:
        """Ask a run to stop; a run that has ended stays as it is."""
        record = await self.get(run)
        if (live := self._live.get(run)) is not None:
            live.stop.set()
        elif not record.finished:
            raise CarriedElsewhere
        return record

    async def drain(self, *, within_s: float) -> None:
        """Take no more runs, let those under way finish, and stop those that do not."""
        self._closing = True
        ended = [asyncio.create_task(live.ended.wait()) for live in self._live.values()]
        if not ended:
            return
        _, late = await asyncio.wait(ended, timeout=within_s)
        for live in self._live.values():
            live.stop.set()
        if late:
            await asyncio.wait(late, timeout=within_s)

    async def ping(self) -> None:
        """Raise `ShuttingDown` or `JournalUnavailable` while no run is taken."""
        self._require_open()

    def _require_open(self) -> None:
        if self._closing:
            raise ShuttingDown(retry_after_s=RETRY_AFTER_S)
        self._receipts.require_ready()

    async def _insert(
        self,
        request: GraphRunRequest,
        context: RunContext,
        fingerprint: bytes,
    ) -> RunRecord | None:
        new = NewRun(
            key=context.run,
            api_key_id=context.attribution.api_key_id,
            graph_id=request.graph_id,
            model=context.model,
            request=request.model_dump(mode="json", by_alias=True, exclude_none=True),
            request_hash=fingerprint,
            request_id=context.request_id,
            process_id=self._process_id,
        )
        async with self._database.transaction() as tx:
            record = await insert_run(tx, new)
            if record is not None:
                wanted = self._planner.reservation(request, context)
                await self._ledger.reserve(tx, context.run, wanted)
            return record

    async def _carry(self, request: GraphRunRequest, context: RunContext) -> None:
        run = context.run
        live = self._live[run]
        try:
            with structlog.contextvars.bound_contextvars(run_id=run.run_id, request_id=context.request_id):
                waits = partial(self._waits, run)
                async with self._queue.place(run.account_id, context.stop, waits=waits):
                    live.final = await self._relay.carry(request, context)
        finally:
            self._queue.discharge(run.account_id)
            del self._live[run]
            live.ended.set()

    async def _waits(self, run: RunKey, position: int) -> None:
        try:
            await self._log.append(run, Queued(position=position))
        except AppError as error:
            # The run will hear of it itself, should it last.
            log.warning("a reader was not told that its run waits", reason=error.detail)

    async def _find(self, run: RunKey) -> RunRecord | None:
        async with self._database.snapshot() as reader:
            return await find_run(reader, run)

    async def _follow_log(
        self,
        run: RunKey,
        after: int,
    ) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Follow the log; of a run carried elsewhere, until the database says it has ended."""
        batches = self._log.follow(run, after=after)
        waiting: asyncio.Future[Sequence[LogEntry] | None] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(_next(batches))
                ready, _ = await asyncio.wait({waiting}, timeout=_ASK_AGAIN_S)
                if ready:
                    batch, waiting = waiting.result(), None
                    if batch is None:
                        return
                    yield batch
                elif run not in self._live and (await self.get(run)).finished:
                    return
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.wait({waiting})
            await batches.aclose()

    async def _kept(self, run: RunKey, after: int) -> list[LogEntry]:
        async with self._database.snapshot() as reader:
            entries = unpack(await stored_events(reader, run))
        # The events of a run whose process died are gone but for its end: it comes next,
        # wherever the reader had got to.
        if entries and entries[0].event == RunError(error="internal"):
            return numbered([entry.event for entry in entries], after=after)
        return [entry for entry in entries if entry.position > after]


async def _next(batches: AsyncGenerator[Sequence[LogEntry]]) -> Sequence[LogEntry] | None:
    return await anext(batches, None)


def _joined(record: RunRecord, fingerprint: bytes) -> RunRecord:
    if record.request_hash != fingerprint:
        raise RunIdTaken
    return record


def _run_id(account_id: AccountId, request: GraphRunRequest, idempotency_key: str | None) -> RunId:
    if request.run_id is not None:
        return RunId(request.run_id)
    if idempotency_key is not None:
        # The same key always means the same run: no table of keys is needed.
        return RunId(str(uuid5(account_id, idempotency_key)))
    return RunId(str(new_uuid()))


def _fingerprint(request: GraphRunRequest) -> bytes:
    """Equal for equal requests, whatever their run id and however they were written."""
    plain = request.model_dump(mode="json", exclude={"run_id"}, exclude_none=True)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()
