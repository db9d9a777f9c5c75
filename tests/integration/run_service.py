"""The service of runs on PostgreSQL, with a scripted executor in place of the CLI."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy import text

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.billing.prices.price_list import PriceList
from app.billing.reports.service import BillingReports
from app.conversations.history import ConversationHistory
from app.conversations.transcript_store import TranscriptStore
from app.executors.inbox import MessageLimits
from app.executors.port import GraphExecutor
from app.graphs.catalog import GraphCatalog
from app.graphs.spec import GraphSpec
from app.ids import RunId, RunKey
from app.models.registry import ModelRegistry, OperatorModels
from app.platform.clock.clock import Clock
from app.platform.clock.lease import Lease
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.platform.storage.service import StorageQuota
from app.platform.telemetry.service import Telemetry
from app.requests.messages import Message
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.acceptance import RunAcceptance
from app.runs.conversations.posted_history import PostedHistories
from app.runs.conversations.service import ConversationService
from app.runs.dispatch.limits import DispatchLimits
from app.runs.dispatch.maintenance import QueueMaintenance
from app.runs.dispatch.port import Dispatcher
from app.runs.dispatch.postgres import PostgresDispatcher
from app.runs.dispatch.records import Worker
from app.runs.dispatch.temporal.activities import RunActivities
from app.runs.dispatch.temporal.dispatcher import TemporalDispatcher
from app.runs.events.endings import RunEndings
from app.runs.events.reader import RunEventReader
from app.runs.intake.planning import RunPlanning
from app.runs.intake.readiness import IntakeReadiness
from app.runs.intake.submission import RunSubmission
from app.runs.planner import RunPlanner
from app.runs.records import RunRecord
from app.runs.recovery.draining import RunDrain
from app.runs.recovery.handover import RunHandover
from app.runs.recovery.heartbeat import Heartbeat
from app.runs.recovery.parking import RunParking
from app.runs.recovery.peers import Peers
from app.runs.recovery.service import RunRecovery
from app.runs.requests.posted import PostedRun
from app.runs.requests.repeated import RepeatedRequests
from app.runs.requests.schema_preparation import SchemaPreparation
from app.runs.service import RunService
from app.runs.starting import RunStarter
from app.streams.port import EventLog
from app.streams.relay.client import Relay
from app.tools.catalog import ToolCatalog
from app.workspaces.service import Workspaces
from tests.contracts.temporal import Temporal
from tests.factories import an_account
from tests.integration.run_process import ELSEWHERE, Process, a_process
from tests.scripted import Script, ScriptedExecutor, WriteMessage

ONCE = GraphSpec(name="once", description="Is executed once.", system_prompt="p", permission_modes=["plan"])
RETRIED = GraphSpec(name="retried", description="Is resumed.", system_prompt="p", retry=True)


@dataclass(frozen=True, slots=True)
class Core:
    """The parts that accept, execute and recover runs."""

    process: Process
    planner: RunPlanner
    acceptance: RunAcceptance
    service: RunService
    intake: IntakeReadiness
    dispatcher: Dispatcher
    drain: RunDrain
    heartbeat: Heartbeat
    starter: RunStarter
    recovery: RunRecovery
    caller: Principal
    """Who may start and read the runs of an account."""

    @property
    def database(self) -> Database:
        """The database of the process."""
        return self.process.queue.database

    async def start(self, graph: GraphSpec = ONCE, **fields: Any) -> RunRecord:
        """Start a run of this account."""
        return await self.service.start(self.caller, a_request(graph, **fields), request_id=None)


class OpenCore(Protocol):
    """The fixture `open_core`."""

    def __call__(self, script: Script = ..., **options: Any) -> AbstractAsyncContextManager[Core]:
        """A process with a directory of its own; `options` are those of `a_core`."""
        ...


def caller_of(key: KeyRecord) -> Principal:
    """The holder of this key."""
    return Principal(key.account_id, key.id, frozenset(key.scopes))


def a_request(graph: GraphSpec = ONCE, prompt: str = "hello", **fields: object) -> GraphRunRequest:
    """A request for a run."""
    messages: Sequence[Message] = [Message.of(role="user", content=prompt)]
    return GraphRunRequest.of(graph_id=graph.id, messages=messages, **fields)


def answers(_request: GraphRunRequest) -> list[WriteMessage]:
    """The script of a run with one short answer."""
    return [WriteMessage("Good morning.")]


@asynccontextmanager
async def a_core(
    database: Database,
    directory: Path,
    script: Script = answers,
    *,
    lease: Lease | None = None,
    peers: Peers | None = None,
    log: EventLog | None = None,
    places: int = 4,
    queued: int = 100,
    per_account: int | None = None,
    is_dispatching: bool = True,
    max_bytes: int | None = None,
    messages: MessageLimits | None = None,
    relay: Relay | None = None,
    executor: GraphExecutor | None = None,
    temporal: Temporal | None = None,
    telemetry: Telemetry | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Core]:
    """Everything that `POST /v1/runs` needs; `executor` replaces the one that plays `script`.

    Without `temporal` PostgreSQL dispatches.
    """
    planner, caller = _a_planner(), caller_of(await an_account(database))
    async with (
        _a_preparation() as schemas,
        a_process(
            *(database, directory),
            executor=executor or ScriptedExecutor(script),
            lease=lease,
            log=log,
            places=places,
            dispatch=DispatchLimits(queued, per_account),
            graphs=[ONCE, RETRIED],
            max_bytes=max_bytes,
            limits=messages,
            relay=relay,
            telemetry=telemetry,
            clock=clock,
        ) as process,
    ):
        acceptance = _an_acceptance(database, process)
        starter = _a_starter(database, process, planner, schemas)
        dispatcher = await _a_dispatcher(process, planner, starter, temporal=temporal)
        heartbeat, recovery = _a_recovery(database, process, starter, dispatcher=dispatcher, peers=peers)
        intake = IntakeReadiness(process.receipts.require_ready, require_sandbox=_no_sandbox)
        service = _a_service(
            *(database, process, planner, acceptance), dispatcher=dispatcher, intake=intake, schemas=schemas
        )
        drain = _a_drain(database, process, dispatcher, intake=intake, heartbeat=heartbeat)
        await heartbeat.send()
        await dispatcher.claim()
        if is_dispatching:
            _start_dispatching(process, dispatcher)
        parts = (acceptance, service, intake, dispatcher, drain, heartbeat, starter, recovery)
        yield Core(process, planner, *parts, caller)
        if isinstance(dispatcher, TemporalDispatcher):
            await dispatcher.aclose()
        process.tasks.cancel_scope.cancel()


@asynccontextmanager
async def _a_preparation() -> AsyncIterator[SchemaPreparation]:
    async with SchemaChecker(workers=1, check_s=5.0) as checker:
        yield SchemaPreparation(checker, Offload())


def _a_service(
    database: Database,
    process: Process,
    planner: RunPlanner,
    acceptance: RunAcceptance,
    *,
    dispatcher: Dispatcher,
    intake: IntakeReadiness,
    schemas: SchemaPreparation,
) -> RunService:
    return RunService(
        database,
        codec=process.codec,
        planning=RunPlanning(
            planner,
            intake=intake,
            repeated=RepeatedRequests(database, process.codec),
            schemas=schemas,
            histories=PostedHistories(database, _a_history(database)),
            telemetry=process.telemetry,
        ),
        submission=RunSubmission(acceptance, dispatcher, process.supervisor, commands=process.commands),
        supervisor=process.supervisor,
        reader=_a_reader(database, process),
    )


def _a_history(database: Database) -> ConversationHistory:
    return ConversationHistory(TranscriptStore(database), tool_id_of=str)


def _conversations(database: Database) -> ConversationService:
    history = _a_history(database)
    return ConversationService(database, history, storage=StorageQuota(database, None), max_bytes=2**20)


def _start_dispatching(process: Process, dispatcher: Dispatcher) -> None:
    process.tasks.start_soon(dispatcher.work)
    process.tasks.start_soon(QueueMaintenance(process.queue, dispatcher, process.queued.stop).watch)


def _an_acceptance(database: Database, process: Process) -> RunAcceptance:
    return RunAcceptance(
        database,
        codec=process.codec,
        conversations=_conversations(database),
        ledger=process.ledger,
        storage=StorageQuota(database, None),
        workspaces=Workspaces(database, []),
        require_active_key=Accounts(database).require_active_key,
        queue=process.queue,
    )


def _a_starter(
    database: Database, process: Process, planner: RunPlanner, schemas: SchemaPreparation
) -> RunStarter:
    return RunStarter(
        database,
        planner=planner,
        schemas=schemas,
        supervisor=process.supervisor,
        closer=process.closer,
        receipts=process.receipts,
        reports=BillingReports(database),
        codec=process.codec,
        places=process.places,
        lease=process.lease,
        tasks=process.tasks,
        telemetry=process.telemetry,
    )


async def _a_dispatcher(
    process: Process, planner: RunPlanner, starter: RunStarter, *, temporal: Temporal | None
) -> Dispatcher:
    graphs = [graph.id for graph in planner.graphs.all()]
    if temporal is None:
        return PostgresDispatcher(
            process.queue,
            process.places,
            lease=process.lease,
            graphs=graphs,
            start=starter.start,
            require_ready=process.receipts.require_ready,
        )
    activities = RunActivities(
        process.queue,
        process.places,
        process.lease,
        graphs,
        execution=starter,
        stop=process.commands.stop,
        require_ready=process.receipts.require_ready,
    )
    connection = await temporal.server.connect()
    return TemporalDispatcher(connection, activities, task_queue=temporal.task_queue)


def _a_drain(
    database: Database,
    process: Process,
    dispatcher: Dispatcher,
    *,
    intake: IntakeReadiness,
    heartbeat: Heartbeat,
) -> RunDrain:
    handover = RunHandover(
        database,
        process.log,
        process_id=process.process_id,
        supervisor=process.supervisor,
        graphs=GraphCatalog([ONCE, RETRIED]),
    )
    parking = RunParking(process.supervisor, after_s=60)
    return RunDrain(intake, dispatcher, process.supervisor, heartbeat, handover, parking)


def _a_recovery(
    database: Database, process: Process, starter: RunStarter, *, dispatcher: Dispatcher, peers: Peers | None
) -> tuple[Heartbeat, RunRecovery]:
    heartbeat = Heartbeat(
        database,
        Worker(process.process_id, "1", 0, 0, draining=False, lease_s=process.lease.term_s),
        lease=process.lease,
        dispatcher=dispatcher,
        supervisor=process.supervisor,
        attempts=starter.attempts,
        lose=starter.lose,
        agents=lambda: None,
        clock=Clock(),
    )
    recovery = RunRecovery(
        database,
        heartbeat=heartbeat,
        closer=process.closer,
        graphs=GraphCatalog([ONCE, RETRIED]),
        process_id=process.process_id,
        term_s=process.lease.term_s,
        peers=peers,
    )
    return heartbeat, recovery


async def a_lost_run(
    core: Core,
    graph: GraphSpec = ONCE,
    state_key: str | None = None,
    *,
    name: str = "run-1",
    process_id: UUID = ELSEWHERE,
) -> RunKey:
    """A run with reserved credit that is stored as running; its process died before it was executed."""
    database, ledger = core.database, core.process.ledger
    key = await an_account(database)
    await ledger.grant(key.account_id, 10**9)
    await ledger.change_mode(key.account_id, "prepaid")
    request, run = a_request(graph, state_key=state_key), RunKey(key.account_id, RunId(name))
    plan = core.planner.plan(run, request, api_key_id=key.id, request_id="req-1")
    assert await core.acceptance.accept(PostedRun(run, caller_of(key), request), plan, has_place=True)
    statement = text("UPDATE runs SET process_id = :process WHERE run_id = :run_id")
    async with database.transaction() as tx:
        await tx.execute(statement, {"process": process_id, "run_id": name})
    return run


async def beat(core: Core) -> None:
    """What a server does every few seconds."""
    await core.heartbeat.send()
    await core.recovery.take_over()


def _a_planner() -> RunPlanner:
    models = ModelRegistry("haiku", OperatorModels(), is_priced=lambda _: True)
    graphs = GraphCatalog([ONCE, RETRIED])
    return RunPlanner(graphs, models, ToolCatalog([]), PriceList(), timedelta(seconds=60))


def _a_reader(database: Database, process: Process) -> RunEventReader:
    endings = RunEndings(database, process.log, is_active=process.supervisor.is_active)
    process.tasks.start_soon(endings.watch)
    return RunEventReader(database, process.log, endings)


async def _no_sandbox() -> None:
    raise AssertionError
