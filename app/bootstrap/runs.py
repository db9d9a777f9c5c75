"""Opens the services that accept, dispatch, execute and recover runs."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta

from app import __version__
from app.auth.accounts import Accounts
from app.bootstrap.agent import open_history
from app.bootstrap.catalogs import message_limits
from app.bootstrap.dispatch.dispatcher import open_dispatcher
from app.bootstrap.dispatch.temporal import open_temporal
from app.bootstrap.event_log import open_reader
from app.bootstrap.infrastructure import Infrastructure
from app.executors.aggregator import ExecutorAggregator
from app.graphs.rules.evaluation import Conditions
from app.platform.settings import Settings
from app.runs.acceptance import RunAcceptance
from app.runs.closing import RunCloser
from app.runs.commands.pending import pending_commands
from app.runs.commands.queued import QueuedRuns
from app.runs.commands.receiver import CommandReceiver
from app.runs.commands.remote import CommandSender
from app.runs.commands.service import RunCommands
from app.runs.conversations.posted_history import PostedHistories
from app.runs.conversations.service import ConversationService
from app.runs.conversations.undelivered import UndeliveredMessages
from app.runs.dispatch.expiry import CallExpiry
from app.runs.dispatch.limits import DispatchLimits
from app.runs.dispatch.maintenance import QueueMaintenance
from app.runs.dispatch.places import Places
from app.runs.dispatch.port import Dispatcher
from app.runs.dispatch.queue import RunQueue
from app.runs.dispatch.records import Worker
from app.runs.external.service import ExternalRuns
from app.runs.external.starting import UnqueuedRuns
from app.runs.intake.planning import RunPlanning
from app.runs.intake.readiness import IntakeReadiness
from app.runs.intake.submission import RunSubmission
from app.runs.recovery.draining import RunDrain
from app.runs.recovery.handover import RunHandover
from app.runs.recovery.heartbeat import Heartbeat
from app.runs.recovery.parking import RunParking
from app.runs.recovery.peers import ProcessPeers
from app.runs.recovery.service import RunRecovery
from app.runs.requests.codec import RequestCodec
from app.runs.requests.repeated import RepeatedRequests
from app.runs.service import RunService, do_nothing
from app.runs.starting import RunStarter
from app.runs.supervisor import RunSupervisor
from app.runs.titling.service import Titles
from app.runs.worker import RunWorker
from app.tools.extensions.loading import Extensions


@dataclass(frozen=True, slots=True)
class OpenedRuns:
    """The services of runs."""

    runs: RunService
    commands: RunCommands
    conversations: ConversationService
    intake: IntakeReadiness
    dispatcher: Dispatcher
    drain: RunDrain
    supervisor: RunSupervisor
    codec: RequestCodec
    external: ExternalRuns | None


@dataclass(frozen=True, slots=True)
class _Execution:
    """The parts that execute runs."""

    queue: RunQueue
    codec: RequestCodec
    closer: RunCloser
    supervisor: RunSupervisor
    starter: RunStarter
    places: Places


async def open_runs(
    infra: Infrastructure,
    stack: AsyncExitStack,
    executor: ExecutorAggregator,
    *,
    accounts: Accounts,
) -> OpenedRuns:
    """Open the services of runs, and recover the runs of processes that died."""
    settings, database, log_ = infra.settings, infra.database, infra.log
    execution = _open_execution(infra, executor)
    queued = QueuedRuns(
        *(database, execution.closer, infra.planner.graphs, infra.storage, message_limits(settings)),
        schemas=infra.schemas.checker,
    )
    commands = _open_commands(infra, stack, execution.supervisor, queued)
    dispatcher = await open_dispatcher(
        infra,
        stack,
        execution.queue,
        places=execution.places,
        starter=execution.starter,
        stop=commands.stop,
        temporal=await open_temporal(settings, str(infra.process_id)),
    )
    conversations = _open_conversations(infra)
    heartbeat = _open_heartbeat(infra, execution, dispatcher)
    intake, title_model = _open_intake(infra), settings.title_model
    acceptance = _open_acceptance(infra, execution, conversations, accounts=accounts)
    runs = RunService(
        database,
        codec=execution.codec,
        planning=_open_planning(infra, execution, intake),
        submission=RunSubmission(
            acceptance, dispatcher, execution.supervisor, commands=commands, metrics=infra.metrics.runs
        ),
        supervisor=execution.supervisor,
        reader=open_reader(database, log_, execution.supervisor, tasks=infra.tasks),
        on_start=do_nothing if title_model is None else Titles(database, infra.tasks, title_model).begin,
    )
    parking = RunParking(execution.supervisor, settings.park_after_s)
    drain = RunDrain(
        *(intake, dispatcher, execution.supervisor, heartbeat), _open_handover(infra, execution), parking
    )
    await _start_recovery(infra, execution, heartbeat, stack=stack)
    stack.push_async_callback(drain.drain, within_s=settings.drain_s)
    await dispatcher.claim()
    infra.tasks.start_soon(dispatcher.work)
    infra.tasks.start_soon(QueueMaintenance(execution.queue, dispatcher, queued.stop).watch)
    infra.tasks.start_soon(parking.watch)
    infra.tasks.start_soon(CallExpiry(execution.queue).watch)
    infra.tasks.start_soon(infra.workspaces.sweep)
    if infra.agent is not None and any(graph.native_tools for graph in infra.planner.graphs.definitions()):
        infra.tasks.start_soon(infra.agent.sandbox_probe.check)
    return OpenedRuns(
        *(runs, commands, conversations, intake, dispatcher, drain),
        *(execution.supervisor, execution.codec),
        external=_open_external(infra, execution, acceptance, intake=intake),
    )


def _open_external(
    infra: Infrastructure, execution: _Execution, acceptance: RunAcceptance, *, intake: IntakeReadiness
) -> ExternalRuns | None:
    if infra.agent is None or infra.agent.external is None:
        return None
    queue = execution.queue
    unqueued = UnqueuedRuns(queue.database, queue.process_id, queue.limits)
    return ExternalRuns(
        infra.agent.external,
        replace(acceptance, queue=unqueued),
        execution.supervisor,
        intake=intake,
        models=infra.planner.models,
        ledger=infra.ledger,
        codec=execution.codec,
        telemetry=infra.telemetry,
        metrics=infra.metrics.runs,
        clock=infra.clock,
    )


def _open_intake(infra: Infrastructure) -> IntakeReadiness:
    require_sandbox = _checked_by_workers if infra.agent is None else infra.agent.sandbox_probe.require
    return IntakeReadiness(infra.require_ready, require_sandbox=require_sandbox)


async def _checked_by_workers() -> None:
    """Whether agents with native tools can be confined is known where they are executed."""


def _open_execution(infra: Infrastructure, executor: ExecutorAggregator) -> _Execution:
    settings, planner = infra.settings, infra.planner
    codec = RequestCodec(infra.offload, infra.objects)
    places = Places(settings.max_concurrent_runs if infra.role.executes_runs else 0)
    queue = RunQueue(infra.database, infra.process_id, _limits(settings))
    worker = _open_worker(infra, executor, queue, codec)
    supervisor = RunSupervisor(
        infra.database,
        worker,
        infra.log,
        places=places,
        tasks=infra.tasks,
        message_limits=message_limits(settings),
        lease=infra.lease,
        telemetry=infra.telemetry,
        clock=infra.clock,
        conditions=Conditions(infra.schemas.checker.pool),
        max_evidence_bytes=settings.max_run_output_mb * 2**20 if settings.evidence else 0,
    )
    closer = RunCloser(
        infra.log,
        queue,
        receipts=infra.receipts,
        ledger=infra.ledger,
        reports=infra.billing,
        telemetry=infra.telemetry,
        metrics=infra.metrics.runs,
    )
    starter = RunStarter(
        infra.database,
        planner=planner,
        schemas=infra.schemas,
        supervisor=supervisor,
        closer=closer,
        receipts=infra.receipts,
        reports=infra.billing,
        codec=codec,
        places=places,
        lease=infra.lease,
        tasks=infra.tasks,
        telemetry=infra.telemetry,
        metrics=infra.metrics.runs,
    )
    return _Execution(queue, codec, closer, supervisor, starter, places)


def _open_worker(
    infra: Infrastructure, executor: ExecutorAggregator, queue: RunQueue, codec: RequestCodec
) -> RunWorker:
    return RunWorker(
        infra.database,
        executor,
        infra.log,
        complete=UndeliveredMessages(
            infra.database,
            open_history(infra.sessions),
            codec=codec,
            rules=infra.planner.attachments,
        ).add,
        receipts=infra.receipts,
        ledger=infra.ledger,
        queue=queue,
        pending=pending_commands,
        max_output_bytes=infra.settings.max_run_output_mb * 2**20,
        lease=infra.lease,
        metrics=infra.metrics.runs,
        extensions=Extensions.load(infra.metrics.runs) if infra.role.executes_runs else Extensions(),
    )


def _open_commands(
    infra: Infrastructure, stack: AsyncExitStack, supervisor: RunSupervisor, queued: QueuedRuns
) -> RunCommands:
    sender = None
    if infra.channel is not None:
        receiver = CommandReceiver(infra.channel, supervisor, offload=infra.offload, memory=infra.memory)
        stack.push_async_callback(receiver.aclose)
        sender = CommandSender(infra.channel, infra.offload)
    return RunCommands(
        infra.database,
        supervisor,
        process_id=infra.process_id,
        queued=queued,
        limits=message_limits(infra.settings),
        sender=sender,
    )


def _open_planning(infra: Infrastructure, execution: _Execution, intake: IntakeReadiness) -> RunPlanning:
    return RunPlanning(
        infra.planner,
        intake=intake,
        repeated=RepeatedRequests(infra.database, execution.codec),
        schemas=infra.schemas,
        histories=PostedHistories(infra.database, open_history(infra.sessions)),
        telemetry=infra.telemetry,
    )


def _open_acceptance(
    infra: Infrastructure, execution: _Execution, conversations: ConversationService, *, accounts: Accounts
) -> RunAcceptance:
    return RunAcceptance(
        infra.database,
        codec=execution.codec,
        conversations=conversations,
        ledger=infra.ledger,
        storage=infra.storage,
        workspaces=infra.workspaces,
        require_active_key=accounts.require_active_key,
        queue=execution.queue,
    )


def _open_heartbeat(infra: Infrastructure, execution: _Execution, dispatcher: Dispatcher) -> Heartbeat:
    lease = infra.lease
    return Heartbeat(
        infra.database,
        Worker(
            infra.process_id,
            __version__,
            places=0,
            taken=0,
            draining=False,
            lease_s=lease.term_s,
            role=infra.role.value,
        ),
        lease=lease,
        dispatcher=dispatcher,
        supervisor=execution.supervisor,
        attempts=execution.starter.attempts,
        lose=execution.starter.lose,
        agents=lambda: None if infra.agent is None else infra.agent.starter.counts(),
        clock=infra.clock,
    )


def _open_handover(infra: Infrastructure, execution: _Execution) -> RunHandover:
    return RunHandover(
        infra.database,
        infra.log,
        process_id=infra.process_id,
        supervisor=execution.supervisor,
        graphs=infra.planner.graphs,
    )


async def _start_recovery(
    infra: Infrastructure, execution: _Execution, heartbeat: Heartbeat, *, stack: AsyncExitStack
) -> None:
    """Send the first heartbeat, and recover the runs of processes that died from now on."""
    lease = infra.lease
    recovery = RunRecovery(
        infra.database,
        heartbeat=heartbeat,
        closer=execution.closer,
        graphs=infra.planner.graphs,
        process_id=infra.process_id,
        term_s=lease.term_s,
        peers=None if infra.channel is None else ProcessPeers(infra.channel, lease),
    )
    stack.push_async_callback(heartbeat.end)
    await heartbeat.send()
    if infra.settings.database_url is None:
        # There is no other process: every running run has lost its process.
        await recovery.recover(is_alone=True)
    elif infra.channel is None:
        await heartbeat.require_alone()
    infra.tasks.start_soon(recovery.watch)


def _open_conversations(infra: Infrastructure) -> ConversationService:
    return ConversationService(
        infra.database,
        open_history(infra.sessions),
        storage=infra.storage,
        max_bytes=infra.settings.max_conversation_mb * 2**20,
    )


def _limits(settings: Settings) -> DispatchLimits:
    return DispatchLimits(
        queued=settings.max_queued_runs,
        per_account=settings.max_runs_per_account,
        per_key=settings.max_runs_per_key,
        kept_for=timedelta(minutes=settings.idle_process_minutes if settings.idle_processes else 0),
    )
