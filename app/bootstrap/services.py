"""Services: everything the HTTP layer uses, opened and closed in order."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from app.auth.accounts import Accounts
from app.auth.browser_sessions import BrowserSessions
from app.auth.credential_monitor import CredentialMonitor
from app.auth.device_logins.service import DeviceLogins
from app.auth.oidc.code_exchange import CodeExchange
from app.auth.oidc.service import PersonSignIn
from app.auth.tokens.holders import KeyHolders
from app.auth.tokens.issuer_keys import IssuerKeys
from app.auth.tokens.service import Tokens
from app.billing.budgets.service import Budgets
from app.billing.chain.sealing import ChainSealer
from app.billing.chain.service import AccountChains
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.reports.service import BillingReports
from app.bootstrap.agent import Agent, open_previewers, warm_up
from app.bootstrap.infrastructure import Infrastructure, open_infrastructure
from app.bootstrap.metrics.exposition import open_exposition
from app.bootstrap.roles import Role
from app.bootstrap.runs import OpenedRuns, open_runs
from app.bootstrap.schedules import open_schedules
from app.bootstrap.storage import default_retention
from app.bootstrap.webhooks import open_webhooks
from app.executors.aggregator import ExecutorAggregator, PreviewerAggregator
from app.executors.claude_agent.launching.idle_watch import IdleWatch
from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.readiness import ReadinessProbe
from app.executors.port import GraphExecutor
from app.graphs.catalog import GraphCatalog
from app.models.registry import ModelRegistry
from app.platform.audit.service import AuditLog
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.metrics.exposition import Exposition, Neighbours
from app.platform.metrics.registry import MetricsRegistry
from app.platform.read_side import ReadSide
from app.platform.server.memory import MemoryCeiling
from app.platform.settings import Settings
from app.platform.telemetry.service import Telemetry
from app.runs.batches.service import BatchService
from app.runs.chats import ChatRuns
from app.runs.client_tools.service import ClientToolRuns
from app.runs.commands.service import RunCommands
from app.runs.conversations.service import ConversationService
from app.runs.conversations.sharing.service import ConversationShares
from app.runs.deletion.service import RunDeletion
from app.runs.dispatch.port import Dispatcher
from app.runs.erasure.service import Erasures
from app.runs.external.service import ExternalRuns
from app.runs.fleet.service import Fleet
from app.runs.forecasts.service import Forecasts
from app.runs.generate import Generator
from app.runs.intake.readiness import IntakeReadiness
from app.runs.managed.service import ManagedSessions
from app.runs.managed.turns import NewTurns
from app.runs.preview import RunPreviewer
from app.runs.readers.service import RunReaders
from app.runs.recovery.draining import RunDrain
from app.runs.requests.attachments import AttachmentRules
from app.runs.revocation.service import KeyRevocation
from app.runs.service import RunService
from app.runs.stateless.service import StatelessChats
from app.runs.unanswered_tools.service import AbandonedRuns
from app.runs.waits.listing.service import AccountCalls
from app.schedules.rotation import KeyRotation
from app.schedules.service import ScheduleService
from app.streams.port import EventLog
from app.tools.catalog import ToolCatalog
from app.webhooks.service import Webhooks, erase_from_deliveries
from app.workspaces.service import Workspaces

log = structlog.get_logger(__name__)

_Executors: TypeAlias = Mapping[str, GraphExecutor]


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the HTTP layer uses."""

    settings: Settings
    role: Role
    database: Database
    reading: ReadSide
    accounts: Accounts
    tokens: Tokens
    person_sign_in: PersonSignIn | None
    """None if no issuer is configured."""
    credentials: CredentialMonitor
    key_revocation: KeyRevocation
    key_rotation: KeyRotation
    budgets: Budgets
    runs: RunService
    commands: RunCommands
    account_calls: AccountCalls
    conversations: ConversationService
    chats: ChatRuns
    managed: ManagedSessions
    readers: RunReaders
    client_tools: ClientToolRuns
    external: ExternalRuns | None
    """None in a process without a gateway."""
    intake: IntakeReadiness
    dispatcher: Dispatcher
    drain: RunDrain
    generator: Generator
    previewer: RunPreviewer
    schedules: ScheduleService
    batches: BatchService
    forecasts: Forecasts
    fleet: Fleet
    billing: BillingReports
    delivery: ReceiptDelivery
    ledger: CreditLedger
    chain: ChainSealer
    graphs: GraphCatalog
    models: ModelRegistry
    prices: PriceList
    tools: ToolCatalog
    attachments: AttachmentRules
    log: EventLog
    webhooks: Webhooks
    readiness: ReadinessProbe | None
    """None in a process that makes no model calls."""
    workspaces: Workspaces
    contents: RunDeletion
    erasures: Erasures
    memory: MemoryCeiling
    """Checked before anything large is read."""
    offload: Offload
    telemetry: Telemetry
    metrics: MetricsRegistry
    exposition: Exposition

    @property
    def browser_sessions(self) -> BrowserSessions:
        return BrowserSessions(self.database, self.accounts)

    @property
    def device_logins(self) -> DeviceLogins:
        """Logins of programs, for persons who approve them on a page."""
        return DeviceLogins(self.database, self.accounts)

    @property
    def audit(self) -> AuditLog:
        return AuditLog(self.database)

    @property
    def stateless_chats(self) -> StatelessChats:
        """`chats`, for clients that post all messages with each request."""
        return StatelessChats(self.database, self.chats, self.conversations)

    @property
    def shares(self) -> ConversationShares:
        return ConversationShares(self.database, self.conversations.history, self.credentials.is_usable)

    @property
    def chains(self) -> AccountChains:
        """What is sealed of each account's entries."""
        return AccountChains(self.database)

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why the provider refuses calls of this process, by model."""
        return {} if self.readiness is None else self.readiness.refusals


@asynccontextmanager
async def open_services(
    settings: Settings,
    *,
    role: Role = Role.SERVE,
    cli: Cli | None = None,
    executors: _Executors | None = None,
    neighbours: Neighbours | None = None,
) -> AsyncIterator[Services]:
    """Open everything that a process of this role needs, and close it in reverse order.

    `cli` replaces the bundled one; `executors` (by provider, as in graph ids) replace the Claude Agent SDK;
    `neighbours` are the processes of the same command, if there are several.

    Raises any error in settings, graphs, tools or database before anything is served.
    """
    role.require_settings(settings)
    async with AsyncExitStack() as stack:
        infra = await open_infrastructure(settings, stack, role=role, cli=cli)
        yield await _open(infra, stack, executors or {}, neighbours)


async def _open(
    infra: Infrastructure, stack: AsyncExitStack, executors: _Executors, neighbours: Neighbours | None
) -> Services:
    settings, planner = infra.settings, infra.planner
    webhooks, accounts = await _open_webhooks(infra, stack), await _open_accounts(infra)
    tokens = await _open_tokens(infra, stack, accounts)
    opened = await open_runs(infra, stack, _open_executor(infra, executors), accounts=accounts)
    previewer = RunPreviewer(planner, PreviewerAggregator(open_previewers(settings)), infra.schemas)
    timed = await open_schedules(infra, stack, opened, previewer=previewer, accounts=accounts)
    return Services(
        settings=settings,
        role=infra.role,
        database=infra.database,
        reading=infra.reading,
        accounts=accounts,
        tokens=tokens,
        person_sign_in=await _open_person_sign_in(infra, stack, tokens),
        credentials=_open_credentials(infra, accounts),
        key_revocation=_open_key_revocation(infra, accounts, opened.commands),
        key_rotation=KeyRotation(infra.database, accounts),
        budgets=Budgets(infra.database, infra.ledger.clock),
        runs=opened.runs,
        commands=opened.commands,
        conversations=opened.conversations,
        chats=_open_chats(infra, opened),
        managed=_open_managed(infra, opened),
        client_tools=_open_client_tools(infra, opened),
        external=opened.external,
        account_calls=AccountCalls(infra.database),
        intake=opened.intake,
        dispatcher=opened.dispatcher,
        drain=opened.drain,
        readers=_open_readers(infra, opened),
        generator=Generator(opened.runs, planner.models, infra.schemas),
        previewer=previewer,
        schedules=timed.schedules,
        batches=timed.batches,
        forecasts=Forecasts(infra.database, infra.billing),
        fleet=Fleet(infra.database),
        billing=infra.billing,
        delivery=infra.delivery,
        ledger=infra.ledger,
        chain=infra.chain,
        graphs=planner.graphs,
        models=planner.models,
        prices=planner.prices,
        tools=planner.tools,
        attachments=planner.attachments,
        log=infra.log,
        webhooks=webhooks,
        readiness=None if infra.agent is None else _start_agent(infra, infra.agent, accounts),
        workspaces=infra.workspaces,
        contents=_open_contents(infra, opened),
        erasures=_open_erasures(infra, opened, timed.schedules, accounts),
        memory=infra.memory,
        offload=infra.offload,
        telemetry=infra.telemetry,
        metrics=infra.metrics.registry,
        exposition=await open_exposition(infra, stack, opened, webhooks=webhooks, neighbours=neighbours),
    )


def _open_executor(infra: Infrastructure, others: Mapping[str, GraphExecutor]) -> ExecutorAggregator:
    own = {} if infra.agent is None else infra.agent.executors
    return ExecutorAggregator({**own, **others})


async def _open_accounts(infra: Infrastructure) -> Accounts:
    accounts = Accounts(infra.database)
    if infra.settings.bootstrap_key is not None:
        key = await accounts.ensure_key(infra.settings.bootstrap_key.get_secret_value())
        if key.revoked_at is not None:
            log.warning("bootstrap_key.revoked", key_id=str(key.id))
    return accounts


async def _open_tokens(infra: Infrastructure, stack: AsyncExitStack, accounts: Accounts) -> Tokens:
    settings = infra.settings
    keys = await stack.enter_async_context(IssuerKeys(settings.network, now=infra.clock.now))
    return Tokens(KeyHolders(accounts), keys, settings.jwt_issuers)


async def _open_person_sign_in(
    infra: Infrastructure, stack: AsyncExitStack, tokens: Tokens
) -> PersonSignIn | None:
    if (provider := infra.settings.oidc) is None:
        return None
    exchange = await stack.enter_async_context(CodeExchange(infra.settings.network))
    sessions = BrowserSessions(infra.database, tokens.holders.accounts)
    return PersonSignIn(provider, tokens.keys, exchange, tokens.holders, sessions)


def _open_key_revocation(infra: Infrastructure, accounts: Accounts, commands: RunCommands) -> KeyRevocation:
    return KeyRevocation(infra.database, accounts.revoke_key, deliver_cancels=commands.deliver_cancels)


def _open_chats(infra: Infrastructure, opened: OpenedRuns) -> ChatRuns:
    abandoned = AbandonedRuns(infra.database, opened.supervisor)
    infra.tasks.start_soon(abandoned.watch)
    return ChatRuns(
        infra.database,
        opened.runs,
        opened.commands,
        conversations=opened.conversations,
        codec=opened.codec,
        abandoned=abandoned,
        graphs=infra.planner.graphs,
        on_disconnect=infra.settings.on_disconnect,
    )


def _open_managed(infra: Infrastructure, opened: OpenedRuns) -> ManagedSessions:
    turns = NewTurns(infra.database)
    infra.tasks.start_soon(turns.watch)
    return ManagedSessions(
        infra.database,
        opened.runs,
        opened.commands,
        conversations=opened.conversations,
        billing=infra.billing,
        graphs=infra.planner.graphs,
        turns=turns,
        clock=infra.clock,
    )


def _open_client_tools(infra: Infrastructure, opened: OpenedRuns) -> ClientToolRuns:
    graphs, schemas = infra.planner.graphs, infra.schemas
    runs, commands, conversations = opened.runs, opened.commands, opened.conversations
    return ClientToolRuns(infra.database, runs, commands, conversations, graphs=graphs, schemas=schemas)


async def _open_webhooks(infra: Infrastructure, stack: AsyncExitStack) -> Webhooks:
    opened = open_webhooks(
        infra.settings,
        infra.database,
        delivers=infra.role.executes_runs,
        clock=infra.clock,
        metrics=infra.metrics.webhooks,
        telemetry=infra.telemetry,
    )
    return await stack.enter_async_context(opened)


def _open_readers(infra: Infrastructure, opened: OpenedRuns) -> RunReaders:
    readers = RunReaders(
        infra.database,
        process_id=infra.process_id,
        executed=opened.supervisor.active_until_unread,
        cancel=lambda run: opened.commands.stop(run, "cancel"),
        grace_s=infra.settings.disconnect_grace_s,
    )
    infra.tasks.start_soon(readers.watch)
    return readers


def _open_credentials(infra: Infrastructure, accounts: Accounts) -> CredentialMonitor:
    credentials = CredentialMonitor(accounts.find_valid_credentials, now=infra.clock.now)
    infra.tasks.start_soon(credentials.watch)
    return credentials


def _start_agent(infra: Infrastructure, agent: Agent, accounts: Accounts) -> ReadinessProbe:
    """Start agent processes in advance, and end those of deleted conversations and revoked keys."""
    if agent.auth.unavailable_reason is None:
        warm_up(agent.starter, infra.planner)
    watch = IdleWatch(agent.starter.pool, infra.sessions, accounts.find_active_keys)
    readiness = ReadinessProbe(agent.auth)
    infra.tasks.start_soon(watch.watch)
    infra.tasks.start_soon(readiness.run)
    return readiness


def _open_contents(infra: Infrastructure, opened: OpenedRuns) -> RunDeletion:
    contents = RunDeletion(
        infra.database,
        storage=infra.storage,
        delete_unused=opened.conversations.delete_unused,
        by_default=default_retention(infra.settings),
        clock=infra.clock,
    )
    infra.tasks.start_soon(contents.sweep)
    return contents


def _open_erasures(
    infra: Infrastructure, opened: OpenedRuns, schedules: ScheduleService, accounts: Accounts
) -> Erasures:
    erasures = Erasures(
        infra.database,
        infra.log,
        opened.conversations,
        stops=(accounts.erase_end_user, schedules.delete_for),
        deliver_cancels=opened.commands.deliver_cancels,
        erase_from_deliveries=erase_from_deliveries,
    )
    infra.tasks.start_soon(erasures.work)
    return erasures
