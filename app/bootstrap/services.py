"""Services: everything the HTTP layer uses, opened and closed in order."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from app.auth.accounts import Accounts
from app.auth.browser_sessions import BrowserSessions
from app.auth.credential_monitor import CredentialMonitor
from app.billing.chain.sealing import ChainSealer
from app.billing.chain.service import AccountChains
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reconciliation.statements.service import ReconciliationStatements
from app.billing.reports.service import BillingReports
from app.bootstrap.agent import Agent, open_agent, open_schema_checker, warm_up
from app.bootstrap.catalogs import message_limits, open_planner
from app.bootstrap.clock import open_clock, watch_clock
from app.bootstrap.event_log import open_reader, open_shared_log
from app.bootstrap.messages import open_history
from app.bootstrap.reconciliation import open_provider_accounting
from app.bootstrap.storage import open_database, open_journal, open_sealer
from app.bootstrap.webhooks import open_webhooks
from app.concurrency.offload import Offload
from app.conversations.message_store import MessageStore
from app.conversations.prompt_store import PromptStore
from app.conversations.sdk_store import PostgresSessionStore
from app.db import Database
from app.executors.aggregator import ExecutorAggregator
from app.executors.claude_agent.launching.idle_watch import IdleWatch
from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.readiness import ReadinessProbe
from app.executors.metering import BilledMetering
from app.executors.port import GraphExecutor
from app.graphs.catalog import GraphCatalog
from app.ids import new_uuid
from app.json_schema.checker import SchemaChecker
from app.models.registry import ModelRegistry
from app.runs.acceptance import RunAcceptance
from app.runs.chats import ChatRuns
from app.runs.commands.service import RunCommands
from app.runs.conversations.service import ConversationService
from app.runs.deletion.service import RunDeletion
from app.runs.dispatcher import Capacity, RunDispatcher
from app.runs.generate import Generator
from app.runs.planner import RunPlanner
from app.runs.preview import RunPreviewer
from app.runs.recovery import HEARTBEAT_TIMEOUT_S, RunRecovery
from app.runs.requests.codec import RequestCodec
from app.runs.revocation.service import KeyRevocation
from app.runs.service import RunService
from app.runs.supervisor import RunSupervisor
from app.runs.worker import RunWorker
from app.server.memory import MemoryCeiling
from app.settings import Settings
from app.storage.service import StorageQuota
from app.streams.port import EventLog
from app.tools.catalog import ToolCatalog
from app.webhooks.service import Webhooks
from app.workspaces.service import Workspaces

DRAIN_S = 20.0
"""How long active runs may continue after the server got a signal to stop."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the HTTP layer uses."""

    settings: Settings
    database: Database
    accounts: Accounts
    browser_sessions: BrowserSessions
    credentials: CredentialMonitor
    key_revocation: KeyRevocation
    runs: RunService
    commands: RunCommands
    conversations: ConversationService
    chats: ChatRuns
    generator: Generator
    previewer: RunPreviewer
    billing: BillingReports
    statements: ReconciliationStatements
    delivery: ReceiptDelivery
    ledger: CreditLedger
    chain: ChainSealer
    chains: AccountChains
    graphs: GraphCatalog
    models: ModelRegistry
    prices: PriceList
    tools: ToolCatalog
    log: EventLog
    webhooks: Webhooks
    readiness: ReadinessProbe
    workspaces: Workspaces
    contents: RunDeletion
    memory: MemoryCeiling
    """Checked before anything large is read."""
    offload: Offload


@dataclass(frozen=True, slots=True)
class _Infrastructure:
    """What the services of runs depend on."""

    settings: Settings
    process_id: UUID
    database: Database
    log: EventLog
    receipts: ReceiptQueue
    delivery: ReceiptDelivery
    ledger: CreditLedger
    chain: ChainSealer
    billing: BillingReports
    sessions: PostgresSessionStore
    planner: RunPlanner
    workspaces: Workspaces
    schemas: SchemaChecker
    agent: Agent
    memory: MemoryCeiling
    offload: Offload
    storage: StorageQuota
    tasks: TaskGroup
    """Background tasks, among them the active runs; cancelled at the end."""


@asynccontextmanager
async def open_services(
    settings: Settings, *, cli: Cli | None = None, executors: Mapping[str, GraphExecutor] | None = None
) -> AsyncIterator[Services]:
    """Open everything and close it in reverse order.

    `cli` replaces the bundled one; `executors` (by provider, as in graph ids) replace the Claude Agent SDK.

    Raises any error in settings, graphs, tools or database before anything is served.
    """
    async with AsyncExitStack() as stack:
        infra = await _open_infrastructure(settings, stack, cli)
        planner = infra.planner
        executor = ExecutorAggregator({**infra.agent.executors, **(executors or {})})
        webhooks = await stack.enter_async_context(open_webhooks(settings, infra.database))
        accounts = Accounts(infra.database)
        runs, commands, conversations = await _open_runs(infra, stack, executor, accounts=accounts)
        if infra.agent.auth.unavailable_reason is None:
            warm_up(infra.agent.starter, planner)
        watch = IdleWatch(infra.agent.starter.pool, infra.sessions, accounts.find_active_keys)
        infra.tasks.start_soon(watch.watch)
        if settings.bootstrap_key is not None:
            await accounts.ensure_key(settings.bootstrap_key.get_secret_value())
        credentials = CredentialMonitor(accounts.find_valid_credentials)
        infra.tasks.start_soon(credentials.watch)
        readiness = ReadinessProbe(infra.agent.auth)
        infra.tasks.start_soon(readiness.run)
        yield Services(
            settings=settings,
            database=infra.database,
            accounts=accounts,
            browser_sessions=BrowserSessions(infra.database, accounts),
            credentials=credentials,
            key_revocation=KeyRevocation(infra.database, accounts.revoke_key),
            runs=runs,
            commands=commands,
            conversations=conversations,
            chats=ChatRuns(runs, commands, conversations),
            generator=Generator(runs, planner.models, infra.schemas),
            previewer=RunPreviewer(planner, executor, infra.schemas),
            billing=infra.billing,
            statements=ReconciliationStatements(infra.database),
            delivery=infra.delivery,
            ledger=infra.ledger,
            chain=infra.chain,
            chains=AccountChains(infra.database),
            graphs=planner.graphs,
            models=planner.models,
            prices=planner.prices,
            tools=planner.tools,
            log=infra.log,
            webhooks=webhooks,
            readiness=readiness,
            workspaces=infra.workspaces,
            contents=_open_contents(infra),
            memory=infra.memory,
            offload=infra.offload,
        )


async def _open_infrastructure(settings: Settings, stack: AsyncExitStack, cli: Cli | None) -> _Infrastructure:
    planner = open_planner(settings)
    database = await stack.enter_async_context(open_database(settings))
    await database.require_current_schema()
    chain = open_sealer(settings, database)
    process_id = new_uuid()
    journal = open_journal(settings, process_id)
    receipts, delivery = _open_receipts(database, journal, planner.prices, stack=stack)
    clock = await open_clock(database)
    ledger, sessions = CreditLedger(database, clock), PostgresSessionStore(database)
    workspaces = Workspaces(database, settings.allowed_host_roots)
    schemas = await stack.enter_async_context(open_schema_checker(settings))
    accounting = await open_provider_accounting(settings, database, planner.prices, stack=stack)
    reports, calls, profile = BillingReports(database), accounting.calls, accounting.profiles.find
    metering = BilledMetering(
        *(receipts, ledger, planner.prices, calls, clock),
        find_profile=profile,
        find_unpriced=reports.unpriced_of_month,
    )
    agent = await stack.enter_async_context(
        open_agent(
            settings,
            metering,
            sessions,
            store=MessageStore(database),
            prompts=PromptStore(database),
            workspaces=workspaces,
            schemas=schemas,
            cli=cli,
            clock=clock,
        )
    )
    event_log, _ = await open_shared_log(settings, process_id, stack)
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    for work in (delivery.work, delivery.keep_synced, chain.work):
        tasks.start_soon(work)
    accounting.start(tasks)
    tasks.start_soon(watch_clock, clock, database)
    return _Infrastructure(
        settings=settings,
        process_id=process_id,
        database=database,
        log=event_log,
        receipts=receipts,
        delivery=delivery,
        ledger=ledger,
        chain=chain,
        billing=reports,
        sessions=sessions,
        planner=planner,
        workspaces=workspaces,
        schemas=schemas,
        agent=agent,
        memory=_open_memory(settings, tasks),
        offload=Offload(),
        storage=_open_storage(settings, database),
        tasks=tasks,
    )


def _open_memory(settings: Settings, tasks: TaskGroup) -> MemoryCeiling:
    memory = MemoryCeiling(None if settings.max_memory_mb is None else settings.max_memory_mb * 2**20)
    tasks.start_soon(memory.watch)
    return memory


async def _open_runs(
    infra: _Infrastructure, stack: AsyncExitStack, executor: ExecutorAggregator, *, accounts: Accounts
) -> tuple[RunService, RunCommands, ConversationService]:
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
    )
    commands = RunCommands(database, supervisor, process_id=infra.process_id, limits=message_limits(settings))
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
    infra.tasks.start_soon(commands.watch)
    infra.tasks.start_soon(infra.workspaces.sweep)
    if any(graph.native_tools for graph in infra.planner.graphs.definitions()):
        infra.tasks.start_soon(infra.agent.sandbox_probe.check)
    return runs, commands, conversations


def _open_acceptance(
    infra: _Infrastructure, conversations: ConversationService, *, codec: RequestCodec, accounts: Accounts
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
    infra: _Infrastructure, dispatcher: RunDispatcher, supervisor: RunSupervisor, *, codec: RequestCodec
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
        process_id=infra.process_id,
    )
    # With an embedded database there is no other process: every unfinished run has lost its process.
    await recovery.recover(timeout_s=0.0 if infra.settings.database_url is None else HEARTBEAT_TIMEOUT_S)
    infra.tasks.start_soon(recovery.watch)


def _open_conversations(infra: _Infrastructure) -> ConversationService:
    return ConversationService(
        infra.database,
        open_history(infra.database, infra.sessions),
        storage=infra.storage,
        max_bytes=infra.settings.max_conversation_mb * 2**20,
    )


def _open_storage(settings: Settings, database: Database) -> StorageQuota:
    most = settings.max_storage_mb_per_account
    return StorageQuota(database, most * 2**20 if most else None)


def _open_contents(infra: _Infrastructure) -> RunDeletion:
    days = infra.settings.retention_days
    contents = RunDeletion(
        infra.database,
        workspaces=infra.workspaces,
        storage=infra.storage,
        keep=timedelta(days=days) if days else None,
    )
    infra.tasks.start_soon(contents.sweep)
    return contents


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


def _open_receipts(
    database: Database, journal: Journal, prices: PriceList, *, stack: AsyncExitStack
) -> tuple[ReceiptQueue, ReceiptDelivery]:
    stack.callback(journal.close)
    queue = ReceiptQueue(journal, prices)
    delivery = ReceiptDelivery(database, queue)
    stack.push_async_callback(delivery.aclose)
    return queue, delivery
