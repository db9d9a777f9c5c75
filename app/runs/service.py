"""RunService: everything one can do with a run."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid5

from app.billing.ledger import CreditLedger
from app.billing.receipt_queue import ReceiptQueue
from app.concurrency.fair_semaphore import FairSemaphore
from app.concurrency.offload import SMALL_BYTES
from app.db import Database, Transaction
from app.errors import Conflict, Unavailable
from app.events import Done, RunError
from app.executors.port import RunContext
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.json_schema.checker import SchemaChecker
from app.pagination import Cursor
from app.principal import Principal
from app.requests import GraphFinal, GraphRunRequest
from app.runs.commands.service import RunCommands, RunNotFound
from app.runs.conversations.service import ConversationBusy, ConversationService
from app.runs.deletion.service import RunDeleted
from app.runs.dispatcher import RETRY_AFTER_S, RunDispatcher
from app.runs.event_codec import decode_events
from app.runs.planner import RunPlanner
from app.runs.records import DriftedRuns, NewRun, RunRecord
from app.runs.repository import QUESTION_CHARS, drifted_runs, find_run, insert_run, newest_runs, stored_events
from app.runs.request_codec import RequestCodec
from app.runs.response_schema import check_response_schema
from app.runs.supervisor import RunSupervisor
from app.runs.worker import with_positions
from app.server.memory import MemoryCeiling
from app.storage.service import StorageQuota
from app.streams.idle_timeout import with_idle_timeout
from app.streams.port import EventLog, LogEntry
from app.workspaces.records import Upload
from app.workspaces.service import Workspaces

_LARGE_BYTES = 1_048_576
_LARGE_REQUESTS_AT_ONCE = 2
"""Writing more at once would leave the database and the event loop no time for small requests."""

_CHECK_INTERVAL_S = 1.0
"""How often a reader of another process's run looks whether that run has ended."""


class RunIdTaken(Conflict):
    """A run with this id exists and was asked for something else."""

    code = "run_id_taken"


class ShuttingDown(Unavailable):
    """This server is shutting down; try again later."""

    code = "shutting_down"


class RunLost(Unavailable):
    """How this run ended cannot be told now; ask again."""

    code = "run_lost"


class RunService:
    """Starts runs, looks them up, follows them."""

    def __init__(
        self,
        database: Database,
        event_log: EventLog,
        *,
        receipts: ReceiptQueue,
        ledger: CreditLedger,
        planner: RunPlanner,
        dispatcher: RunDispatcher,
        supervisor: RunSupervisor,
        commands: RunCommands,
        conversations: ConversationService,
        schemas: SchemaChecker,
        workspaces: Workspaces,
        memory: MemoryCeiling,
        codec: RequestCodec,
        storage: StorageQuota,
        require_sandbox: Callable[[], Awaitable[None]],
        require_live_key: Callable[[Transaction, ApiKeyId], Awaitable[None]],
        process_id: UUID,
    ) -> None:
        """`require_sandbox` raises where agents with native tools cannot be confined.

        `require_live_key` raises for a key that is revoked, and keeps it from being revoked meanwhile.
        """
        self._database = database
        self._log = event_log
        self._receipts = receipts
        self._ledger = ledger
        self._planner = planner
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._commands = commands
        self._conversations = conversations
        self._schemas = schemas
        self._workspaces = workspaces
        self._memory = memory
        self._codec = codec
        self._storage = storage
        self._require_sandbox = require_sandbox
        self._require_live_key = require_live_key
        self._process_id = process_id
        self._large_requests = FairSemaphore(_LARGE_REQUESTS_AT_ONCE)
        self._closing = False

    async def start(
        self,
        caller: Principal,
        request: GraphRunRequest,
        *,
        request_id: str | None,
        idempotency_key: str | None = None,
    ) -> RunRecord:
        """Accept a run, or join the one that has its id and was asked for the same.

        Raises `ScopeMissing` where that would show what other keys have asked, `RunIdTaken`,
        `GraphNotFound`, `Invalid`, `InsufficientCredits`, `QueueFull`, `ConversationBusy`,
        `HistoryConflict`, `ShuttingDown`, `Overloaded`, `JournalUnavailable`, `SandboxUnavailable`,
        `StorageFull`, `RunDeleted`.
        """
        account_id = caller.account_id
        run = RunKey(account_id, _run_id(account_id, request, idempotency_key))
        fingerprint = await self._codec.fingerprint(request)
        if (existing := await self._find(run)) is not None:
            return _existing(existing, fingerprint, caller)
        context = self._planner.plan(run, request, api_key_id=caller.api_key_id, request_id=request_id)
        self._require_open()
        if (wanted := request.response_format) is not None:
            await check_response_schema(
                self._schemas, wanted.schema_, field="responseFormat.schema", account_id=account_id
            )
        if context.spec.native_tools:
            await self._require_sandbox()
        await self._conversations.check_history(caller, request)
        with self._dispatcher.admission(account_id) as admitted:
            try:
                async with self._large_request_slot(request, account_id):
                    accepted = await self._accept(caller, request, context, fingerprint=fingerprint)
            except ConversationBusy:
                # Perhaps it is busy with this very run, posted twice at once.
                if (existing := await self._find(run)) is None:
                    raise
                return _existing(existing, fingerprint, caller)
            if accepted is None:
                return _existing(await self.get(run), fingerprint, caller)
            admitted.pop_all()
        # It is in the database by now: a run that waits need not keep it in memory.
        kept = request.size <= SMALL_BYTES
        self._supervisor.start(accepted.context, request if kept else None)
        for earlier in accepted.to_interrupt:
            await self._commands.stop(earlier, "cancel")
        return accepted.record

    async def get(self, run: RunKey) -> RunRecord:
        """The run as it stands; raises `RunNotFound`."""
        if (record := await self._find(run)) is None:
            raise RunNotFound
        return record

    async def get_with_contents(self, run: RunKey) -> RunRecord:
        """The run, if its events are there; raises `RunNotFound`, `RunDeleted`."""
        return _with_contents(await self.get(run))

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

    async def drifted(
        self,
        account_id: AccountId,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
    ) -> DriftedRuns:
        """Runs of an account that ended in this window and whose meters disagreed."""
        async with self._database.snapshot() as reader:
            return await drifted_runs(reader, account_id, since=since, until=until, limit=limit)

    async def events(self, run: RunKey) -> Sequence[LogEntry]:
        """What a run has said so far; raises `RunNotFound`, `RunDeleted`."""
        if not (await self.get_with_contents(run)).finished and (held := await self._log.read(run)):
            return held
        return [entry async for batch in self._stored(run, 0) for entry in batch]

    async def follow(
        self,
        run: RunKey,
        *,
        after: int = 0,
    ) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Yield a run's events after a position, everything ready at once, until `Done`.

        Raises `RunNotFound`, `RunDeleted` before the first batch. Leaving early changes nothing.
        """
        if not (await self.get_with_contents(run)).finished:
            async with aclosing(self._follow_log(run, after)) as batches:
                async for batch in batches:
                    yield batch
                    after = batch[-1].position
                    if isinstance(batch[-1].event, Done):
                        return
        async with aclosing(self._stored(run, after)) as batches:
            async for kept in batches:
                yield kept

    async def wait(self, run: RunKey) -> GraphFinal:
        """How the run ended, once it has."""
        if (live := self._supervisor.find(run)) is not None:
            await live.ended.wait()
            if live.final is not None:
                return live.final
        async for _ in self.follow(run):
            pass
        final = (await self.get(run)).final
        if final is None:
            raise RunLost
        return final

    async def drain(self, *, within_s: float) -> None:
        """Take no more runs, let those under way finish, and stop those that do not."""
        self._closing = True
        await self._supervisor.drain(within_s=within_s)

    async def ping(self) -> None:
        """Raise `ShuttingDown`, `Overloaded` or `JournalUnavailable` while no run is taken."""
        self._require_open()

    def _large_request_slot(
        self, request: GraphRunRequest, account_id: AccountId
    ) -> AbstractAsyncContextManager[None]:
        """Accept large requests of an account one after the other; a small one needs no slot."""
        if request.size <= _LARGE_BYTES:
            return nullcontext()
        return self._large_requests.slot(str(account_id))

    def _require_open(self) -> None:
        if self._closing:
            raise ShuttingDown(retry_after_s=RETRY_AFTER_S)
        self._memory.require_room()
        self._receipts.require_ready()

    async def _accept(
        self, caller: Principal, request: GraphRunRequest, context: RunContext, *, fingerprint: bytes
    ) -> "_Accepted | None":
        """Insert the run with its turn and its credit, or nothing of it; None when its id is taken."""
        text = await self._codec.encode(request)
        conversation, to_interrupt = None, list[RunKey]()
        async with self._database.transaction() as tx:
            # Whoever revokes the key and stops its runs misses none.
            await self._require_live_key(tx, caller.api_key_id)
            await self._storage.require_room(tx, caller.account_id, request.size)
            if request.state_key is not None:
                conversation, to_interrupt = await self._conversations.take_turn(
                    tx, caller, request.state_key, request=request
                )
            new = NewRun(
                key=context.run,
                api_key_id=context.attribution.api_key_id,
                graph_id=request.graph_id,
                model=context.model,
                request=text,
                question=request.messages[-1].text[:QUESTION_CHARS],
                request_hash=fingerprint,
                request_id=context.request_id,
                process_id=self._process_id,
                conversation=conversation,
            )
            record = await insert_run(tx, new)
            if record is None:
                return None
            if context.spec.native_tools:
                uploads = [Upload(file.path, file.content) for file in request.files]
                await self._workspaces.reserve(tx, context.run, context.spec.workspace, uploads)
            reserved = await self._ledger.reserve(
                tx, context.run, self._planner.reservation(request, context)
            )
        return _Accepted(record, replace(context, conversation=conversation, reserved=reserved), to_interrupt)

    async def _find(self, run: RunKey) -> RunRecord | None:
        async with self._database.snapshot() as reader:
            return await find_run(reader, run)

    async def _follow_log(
        self,
        run: RunKey,
        after: int,
    ) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Follow the log; of a run carried elsewhere, until the database says it has ended."""
        heard = with_idle_timeout(self._log.follow(run, after=after), lambda: _CHECK_INTERVAL_S)
        async with aclosing(heard):
            async for batch in heard:
                if batch is not None:
                    yield batch
                elif self._supervisor.find(run) is None and (await self.get(run)).finished:
                    return

    async def _stored(self, run: RunKey, after: int) -> AsyncGenerator[Sequence[LogEntry], None]:
        """The kept events of a run after a position, piece by piece."""
        async with self._database.snapshot() as reader:
            first = decode_events(await stored_events(reader, run, max_bytes=1))
        # The events of a run whose process died are gone but for its end: it comes next,
        # wherever the reader had got to.
        died = bool(first) and first[0].event == RunError(error="internal")
        position = 0 if died else after
        while True:
            async with self._database.snapshot() as reader:
                rows = await stored_events(reader, run, after=position)
            if not rows:
                return
            entries = decode_events(rows)
            if died:
                yield with_positions([entry.event for entry in entries], after=after)
                return
            yield [entry for entry in entries if entry.position > position]
            position = rows[-1].last_position


@dataclass(frozen=True, slots=True)
class _Accepted:
    record: RunRecord
    context: RunContext
    to_interrupt: list[RunKey]


def _existing(record: RunRecord, fingerprint: bytes, caller: Principal) -> RunRecord:
    # First: whether the bodies are alike tells something of the other one.
    caller.require_reading(record.api_key_id)
    if record.request_hash != fingerprint:
        raise RunIdTaken
    return _with_contents(record)


def _with_contents(record: RunRecord) -> RunRecord:
    if record.contents_deleted_at is not None:
        raise RunDeleted
    return record


def _run_id(account_id: AccountId, request: GraphRunRequest, idempotency_key: str | None) -> RunId:
    if request.run_id is not None:
        return RunId(request.run_id)
    if idempotency_key is not None:
        # The same key always means the same run: no table of keys is needed.
        return RunId(str(uuid5(account_id, idempotency_key)))
    return RunId(str(new_uuid()))
