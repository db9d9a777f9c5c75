"""Opens the services that accept, execute and recover runs."""

from contextlib import AsyncExitStack

from app.auth.accounts import Accounts
from app.bootstrap.catalogs import message_limits
from app.bootstrap.event_log import open_reader
from app.bootstrap.infrastructure import Infrastructure
from app.bootstrap.messages import open_history
from app.executors.aggregator import ExecutorAggregator
from app.runs.acceptance import RunAcceptance
from app.runs.commands.receiver import CommandReceiver
from app.runs.commands.remote import CommandSender
from app.runs.commands.service import RunCommands
from app.runs.conversations.service import ConversationService
from app.runs.dispatcher import Capacity, RunDispatcher
from app.runs.recovery.peers import ProcessPeers
from app.runs.recovery.service import RunRecovery
from app.runs.requests.codec import RequestCodec
from app.runs.service import RunService
from app.runs.supervisor import RunSupervisor
from app.runs.worker import RunWorker
from app.settings import Settings

DRAIN_S = 20.0
"""How long active runs may continue after the server got a signal to stop."""


async def open_runs(
    infra: Infrastructure, stack: AsyncExitStack, executor: ExecutorAggregator, *, accounts: Accounts
) -> tuple[RunService, RunCommands, ConversationService]:
    """Open the services of runs, and recover the runs of processes that died."""
    settings, database, log_ = infra.settings, infra.database, infra.log
    codec = RequestCodec(infra.offload)
    worker = RunWorker(
        database,
        executor,
        log_,
        receipts=infra.receipts,
        ledger=infra.ledger,
        codec=codec,
        max_output_bytes=settings.max_run_output_mb * 2**20,
        lease=infra.lease,
    )
    dispatcher = RunDispatcher(_capacity(settings))
    infra.tasks.start_soon(_share_slots, accounts, dispatcher)
    supervisor = RunSupervisor(
        database,
        worker,
        log_,
        dispatcher=dispatcher,
        tasks=infra.tasks,
        message_limits=message_limits(settings),
        lease=infra.lease,
    )
    commands = _open_commands(infra, stack, supervisor)
    conversations = _open_conversations(infra)
    runs = RunService(
        database,
        planner=infra.planner,
        acceptance=_open_acceptance(infra, conversations, codec=codec, accounts=accounts),
        dispatcher=dispatcher,
        supervisor=supervisor,
        reader=open_reader(database, log_, supervisor, tasks=infra.tasks),
        commands=commands,
        conversations=conversations,
        receipts=infra.receipts,
        schemas=infra.schemas,
        codec=codec,
        memory=infra.memory,
        require_sandbox=infra.agent.sandbox_probe.require,
    )
    stack.push_async_callback(runs.drain, within_s=DRAIN_S)
    await _start_recovery(infra, dispatcher, supervisor, codec=codec)
    infra.tasks.start_soon(infra.workspaces.sweep)
    if any(graph.native_tools for graph in infra.planner.graphs.definitions()):
        infra.tasks.start_soon(infra.agent.sandbox_probe.check)
    return runs, commands, conversations


def _open_commands(infra: Infrastructure, stack: AsyncExitStack, supervisor: RunSupervisor) -> RunCommands:
    sender = None
    if infra.channel is not None:
        receiver = CommandReceiver(infra.channel, supervisor, offload=infra.offload, memory=infra.memory)
        stack.push_async_callback(receiver.aclose)
        sender = CommandSender(infra.channel, infra.offload)
    return RunCommands(
        infra.database,
        supervisor,
        process_id=infra.process_id,
        limits=message_limits(infra.settings),
        sender=sender,
    )


def _open_acceptance(
    infra: Infrastructure, conversations: ConversationService, *, codec: RequestCodec, accounts: Accounts
) -> RunAcceptance:
    return RunAcceptance(
        infra.database,
        codec=codec,
        conversations=conversations,
        ledger=infra.ledger,
        storage=infra.storage,
        workspaces=infra.workspaces,
        require_active_key=accounts.require_active_key,
        process_id=infra.process_id,
    )


async def _start_recovery(
    infra: Infrastructure, dispatcher: RunDispatcher, supervisor: RunSupervisor, *, codec: RequestCodec
) -> None:
    recovery = RunRecovery(
        infra.database,
        infra.log,
        planner=infra.planner,
        dispatcher=dispatcher,
        supervisor=supervisor,
        ledger=infra.ledger,
        receipts=infra.receipts,
        reports=infra.billing,
        codec=codec,
        lease=infra.lease,
        process_id=infra.process_id,
        peers=None if infra.channel is None else ProcessPeers(infra.channel, infra.lease),
    )
    if infra.settings.database_url is None:
        # There is no other process: every unfinished run has lost its process.
        await recovery.recover(timeout_s=0.0)
    infra.tasks.start_soon(recovery.watch)


def _open_conversations(infra: Infrastructure) -> ConversationService:
    return ConversationService(
        infra.database,
        open_history(infra.database, infra.sessions),
        storage=infra.storage,
        max_bytes=infra.settings.max_conversation_mb * 2**20,
    )


async def _share_slots(accounts: Accounts, dispatcher: RunDispatcher) -> None:
    await accounts.wait_for_second_account()
    dispatcher.share_slots()


def _capacity(settings: Settings) -> Capacity:
    return Capacity.of(
        settings.max_concurrent_runs,
        settings.max_queued_runs,
        per_account=settings.max_runs_per_account,
        per_key=settings.max_runs_per_key,
    )
