"""RunService: starts runs, finds them and follows their events."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from uuid import uuid5

from app.billing.receipts.queue import ReceiptQueue
from app.conversations.branching.records import After
from app.errors import Conflict, Unavailable
from app.executors.port import RunPlan
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.concurrency.offload import SMALL_BYTES
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.platform.logs.context import note
from app.platform.metrics.runs import RunMetrics
from app.platform.pagination import PageRequest
from app.platform.server.memory import MemoryCeiling
from app.platform.telemetry.service import Telemetry
from app.platform.telemetry.trace_context import CallerTrace
from app.requests.outcome import GraphFinal
from app.requests.principal import Principal
from app.requests.runs import GraphRunRequest
from app.runs.acceptance import AcceptedRun, RunAcceptance
from app.runs.commands.service import RunCommands, RunNotFound
from app.runs.conversations.service import ConversationBusy, ConversationService
from app.runs.deletion.service import RunDeleted
from app.runs.dispatch.limits import RETRY_AFTER_S, QueueFull
from app.runs.dispatch.port import Dispatcher
from app.runs.events.reader import RunEventReader
from app.runs.planner import RunPlanner
from app.runs.records import DriftedRuns, MessageOrigin, RunRecord
from app.runs.recovery.draining import RunDrain
from app.runs.repository import drifted_runs, find_run, newest_runs
from app.runs.requests.client_tools import check_client_tools
from app.runs.requests.codec import RequestCodec
from app.runs.requests.repeated import origin_of, with_messages
from app.runs.requests.response_schema import check_response_schema
from app.runs.supervisor import RunSupervisor
from app.streams.port import LogEntry


class RunIdTaken(Conflict):
    """There already is a run with this id and a different request."""

    code = "run_id_taken"


class ShuttingDown(Unavailable):
    """This server is shutting down; try again later."""

    code = "shutting_down"


class RunLost(Unavailable):
    """The result of this run is not available now; try again later."""

    code = "run_lost"


class RunService:
    """The runs of all accounts."""

    def __init__(
        self,
        database: Database,
        *,
        planner: RunPlanner,
        acceptance: RunAcceptance,
        dispatcher: Dispatcher,
        supervisor: RunSupervisor,
        reader: RunEventReader,
        commands: RunCommands,
        conversations: ConversationService,
        receipts: ReceiptQueue,
        schemas: SchemaChecker,
        codec: RequestCodec,
        memory: MemoryCeiling,
        require_sandbox: Callable[[], Awaitable[None]],
        drain: RunDrain,
        telemetry: Telemetry,
        metrics: RunMetrics | None = None,
    ) -> None:
        """`require_sandbox` raises where agents with native tools cannot be confined."""
        self._database = database
        self._planner = planner
        self._acceptance = acceptance
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._reader = reader
        self._commands = commands
        self._conversations = conversations
        self._receipts = receipts
        self._schemas = schemas
        self._codec = codec
        self._memory = memory
        self._require_sandbox = require_sandbox
        self._drain = drain
        self._telemetry = telemetry
        self._metrics = metrics or RunMetrics()
        self._closing = False

    async def start(
        self,
        caller: Principal,
        request: GraphRunRequest,
        *,
        request_id: str | None,
        idempotency_key: str | None = None,
        caller_trace: CallerTrace | None = None,
        origin: MessageOrigin | None = None,
    ) -> RunRecord:
        """Start a run, or join the existing one with its id and the same request.

        `origin`: of a message of a chat; without one its place is the end of the conversation, or `forkFrom`.

        Raises `ScopeMissing` if joining would show what other keys requested, `RunIdTaken`,
        `GraphNotFound`, `Invalid`, `InsufficientCredits`, `QueueFull`, `ConversationBusy`,
        `ConversationFull`, `HistoryConflict`, `ShuttingDown`, `Overloaded`, `JournalUnavailable`,
        `SandboxUnavailable`, `StorageFull`, `RunDeleted`, `MessagesNotStored`.
        """
        given_id = _given_id(caller.account_id, request, idempotency_key)
        run = RunKey(caller.account_id, given_id or RunId(str(new_uuid())))
        note(run_id=run.run_id)
        origin = origin or origin_of(request)
        fingerprint = origin.fingerprint or await self._codec.fingerprint(request)
        if given_id is not None and (existing := await self._find(run)) is not None:
            return _joined(existing, fingerprint, caller)
        if not request.messages:
            self._require_accepting()
            # They may be large.
            async with self._acceptance.large_request(caller.account_id):
                request, origin = await with_messages(self._database, self._codec, caller, request)
        plan = await self._plan(caller, run, request, request_id=request_id)
        if not isinstance(origin.place, After):
            await self._conversations.check_history(caller, request, origin.place)
        plan = replace(plan, trace=self._telemetry.context_of(run, caller_trace))
        # A large request may have to wait until it is stored: not with a place that others could use.
        with self._dispatcher.claim_place(wanted=request.size <= SMALL_BYTES) as claim:
            accepted = await self._accept(
                caller, request, plan, fingerprint=fingerprint, origin=origin, has_place=claim.has_place
            )
            if accepted is None:
                return _joined(await self.get(run), fingerprint, caller)
            if accepted.record.status == "running":
                claim.used_by = run
                self._metrics.run_started(waited_s=0)
                self._supervisor.start(accepted.plan, request)
        if accepted.to_cancel:
            await self._commands.deliver_cancels(accepted.to_cancel)
        return accepted.record

    async def get(self, run: RunKey) -> RunRecord:
        """The run; raises `RunNotFound`."""
        if (record := await self._find(run)) is None:
            raise RunNotFound
        return record

    async def get_with_contents(self, run: RunKey) -> RunRecord:
        """The run, if its contents were not deleted; raises `RunNotFound`, `RunDeleted`."""
        return _with_contents(await self.get(run))

    async def list_runs(
        self,
        account_id: AccountId,
        *,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[RunRecord], str | None]:
        """A page of an account's runs, newest first, and the cursor of the next page."""
        page = PageRequest.of(limit, cursor)
        async with self._database.snapshot() as reader:
            found = await newest_runs(reader, account_id, page)
        return page.cut(found, lambda run: (run.created_at, run.key.run_id))

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
        """The events of a run so far; raises `RunNotFound`, `RunDeleted`."""
        return await self._reader.read(await self.get_with_contents(run))

    async def has_end_before(self, record: RunRecord, position: int) -> bool:
        """Whether a reader that has received the event at this position has received the end of the run."""
        return await self._reader.has_end_before(record, position)

    async def follow(self, run: RunKey, *, after: int = 0) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Yield a run's events after a position in batches until `Done`; leaving early has no effect.

        Raises `RunNotFound`, `RunDeleted` before the first batch.
        """
        # The row of a run that this process executes would only say that it has not ended.
        record = None if self._supervisor.is_active(run) else await self.get_with_contents(run)
        async with aclosing(self._reader.follow(run, record, after=after)) as batches:
            async for batch in batches:
                yield batch

    async def wait(self, run: RunKey) -> GraphFinal:
        """The result of a run, once it has ended."""
        if (active := self._supervisor.find(run)) is not None:
            await active.ended.wait()
            if active.final is not None:
                return active.final
        async for _ in self.follow(run):
            pass
        final = (await self.get(run)).final
        if final is None:
            raise RunLost
        return final

    async def drain(self, *, within_s: float) -> None:
        """Accept and start no more runs, and wait for the running ones; see `RunDrain`."""
        self._closing = True
        await self._drain.drain(within_s=within_s)

    def hurry(self) -> None:
        """Wait no longer for running runs: a `drain` hands them over or stops them now."""
        self._drain.hurry()

    async def ping_dispatcher(self) -> None:
        """Raise `Unavailable` while queued runs start nowhere although the database responds."""
        await self._dispatcher.ping()

    async def ping(self) -> None:
        """Raise `ShuttingDown`, `Overloaded` or `JournalUnavailable` while no run is accepted."""
        self._require_accepting()

    async def _plan(
        self, caller: Principal, run: RunKey, request: GraphRunRequest, *, request_id: str | None
    ) -> RunPlan:
        """Decide everything about the run; raises what prevents it, before anything is stored."""
        plan = self._planner.plan(run, request, api_key_id=caller.api_key_id, request_id=request_id)
        self._require_accepting()
        if (response_format := request.response_format) is not None:
            await check_response_schema(
                self._schemas,
                response_format.schema_,
                field="responseFormat.schema",
                account_id=caller.account_id,
            )
        await check_client_tools(self._schemas, request.client_tools, account_id=caller.account_id)
        if plan.spec.native_tools:
            await self._require_sandbox()
        return plan

    async def _accept(
        self,
        caller: Principal,
        request: GraphRunRequest,
        plan: RunPlan,
        *,
        fingerprint: bytes,
        origin: MessageOrigin,
        has_place: bool,
    ) -> AcceptedRun | None:
        """Store the run; None if another request stored it first."""
        try:
            return await self._acceptance.accept(
                caller, request, plan, fingerprint=fingerprint, origin=origin, has_place=has_place
            )
        except (ConversationBusy, QueueFull):
            # Because of this very run, posted twice at once.
            if await self._find(plan.run) is None:
                raise
            return None

    def _require_accepting(self) -> None:
        if self._closing:
            raise ShuttingDown(retry_after_s=RETRY_AFTER_S)
        self._memory.require_room()
        self._receipts.require_ready()

    async def _find(self, run: RunKey) -> RunRecord | None:
        async with self._database.read() as reader:
            return await find_run(reader, run)


def _joined(record: RunRecord, fingerprint: bytes, caller: Principal) -> RunRecord:
    # First, because whether the requests are equal reveals something about the existing one.
    caller.require_reading(record.api_key_id)
    if record.request_hash != fingerprint:
        raise RunIdTaken
    return _with_contents(record)


def _with_contents(record: RunRecord) -> RunRecord:
    if record.contents_deleted_at is not None:
        raise RunDeleted
    return record


def _given_id(account_id: AccountId, request: GraphRunRequest, idempotency_key: str | None) -> RunId | None:
    """The id that the client decides; None for a run that cannot exist yet."""
    if request.run_id is not None:
        return RunId(request.run_id)
    if idempotency_key is not None:
        # The same key always gives the same run id, so no table of keys is needed.
        return RunId(str(uuid5(account_id, idempotency_key)))
    return None
