"""Settings in, Services out: the only place that picks adapters and knows the order of closing."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskGroup
from pydantic import SecretStr

from app.auth.accounts import Accounts
from app.billing.journal import Journal
from app.billing.ledger import CreditLedger
from app.billing.price_file import read_prices
from app.billing.pricing import PriceList
from app.billing.receipts import ReceiptWriter
from app.billing.reports import BillingReports
from app.db import Database
from app.embedded import EmbeddedPostgres
from app.executors.aggregator import ExecutorAggregator
from app.executors.catalog import SHIPPED_GRAPHS, GraphCatalog
from app.executors.claude_agent.access import GatewayAccess, LoginAccess, ModelAccess
from app.executors.claude_agent.billing import LaneBilling, RunBilling
from app.executors.claude_agent.cli import Cli, bundled_cli
from app.executors.claude_agent.directories import own_directory
from app.executors.claude_agent.environment import Login
from app.executors.claude_agent.executor import ClaudeAgentExecutor
from app.executors.claude_agent.names import tool_id_of
from app.executors.claude_agent.start import CliStarter
from app.executors.claude_agent.watch import AccessWatch
from app.executors.model_file import read_models
from app.executors.models import ModelRegistry
from app.gateway.provider import Provider
from app.gateway.proxy import Gateway
from app.graph import GraphRunRequest, Message
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.runs.carrier import Carrier
from app.runs.commands import RunCommands
from app.runs.conversations import Conversations
from app.runs.generation import Generator
from app.runs.plan import Planner
from app.runs.preview import Previewer
from app.runs.queue import Capacity, RunQueue
from app.runs.reaper import Reaper
from app.runs.relay import Relay
from app.runs.service import RunService
from app.runs.succession import Succession
from app.sessions.store import PostgresSessionStore
from app.settings import Settings
from app.streams.memory import MemoryEventLog
from app.streams.port import EventLog
from app.streams.redis_streams import RedisEventLog
from app.tools.catalog import ToolCatalog
from app.tools.mcp_servers import McpConnector
from app.webhooks.addresses import Addresses
from app.webhooks.deliverer import Deliverer
from app.webhooks.sender import Sender
from app.webhooks.service import Webhooks

log = structlog.get_logger(__name__)

DRAIN_S = 20.0
"""How long runs under way may go on once the server was asked to stop."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the outer layers speak to."""

    settings: Settings
    database: Database
    accounts: Accounts
    runs: RunService
    commands: RunCommands
    conversations: Conversations
    generator: Generator
    previewer: Previewer
    billing: BillingReports
    ledger: CreditLedger
    graphs: GraphCatalog
    models: ModelRegistry
    prices: PriceList
    tools: ToolCatalog
    log: EventLog
    webhooks: Webhooks
    access: AccessWatch


@dataclass(frozen=True, slots=True)
class _Ground:
    """What runs stand on."""

    settings: Settings
    process_id: UUID
    database: Database
    log: EventLog
    receipts: ReceiptWriter
    ledger: CreditLedger
    billing: BillingReports
    sessions: PostgresSessionStore
    planner: Planner
    tasks: TaskGroup
    """Where runs go on when their reader has left; cancelled at the end."""


@asynccontextmanager
async def open_services(settings: Settings, *, cli: Cli | None = None) -> AsyncIterator[Services]:
    """Open everything, run it, and close it in reverse order. `cli`: another one than the bundled.

    Raises what is wrong with the settings, graphs, tools or database before anything is served.
    """
    planner = _planner(settings)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_database(settings))
        await database.require_current_schema()
        process_id = new_uuid()
        journal = open_journal(settings, process_id)
        stack.callback(journal.close)
        receipts = ReceiptWriter(database, journal, planner.prices)
        stack.push_async_callback(receipts.aclose)
        ledger, sessions = CreditLedger(database), PostgresSessionStore(database)
        billing = RunBilling(receipts, ledger, planner.prices)
        agent = await stack.enter_async_context(open_agent(settings, billing, sessions, cli=cli))
        executor = ExecutorAggregator({"claude_agents": agent.executor})
        ground = _Ground(
            settings=settings,
            process_id=process_id,
            database=database,
            log=await open_log(settings, stack),
            receipts=receipts,
            ledger=ledger,
            billing=BillingReports(database),
            sessions=sessions,
            planner=planner,
            tasks=await stack.enter_async_context(anyio.create_task_group()),
        )
        stack.callback(ground.tasks.cancel_scope.cancel)
        ground.tasks.start_soon(receipts.work)
        webhooks = await stack.enter_async_context(_open_webhooks(settings, database))
        runs, commands, conversations = await _open_runs(ground, stack, executor)
        if agent.access.missing is None:
            _warm_up(agent.starter, planner)
        accounts = Accounts(database)
        if settings.bootstrap_key is not None:
            await accounts.ensure_key(settings.bootstrap_key.get_secret_value())
        access = AccessWatch(agent.access)
        ground.tasks.start_soon(access.watch)
        yield Services(
            settings=settings,
            database=database,
            accounts=accounts,
            runs=runs,
            commands=commands,
            conversations=conversations,
            generator=Generator(runs, planner.models),
            previewer=Previewer(planner, executor),
            billing=ground.billing,
            ledger=ground.ledger,
            graphs=planner.graphs,
            models=planner.models,
            prices=planner.prices,
            tools=planner.tools,
            log=ground.log,
            webhooks=webhooks,
            access=access,
        )


async def _open_runs(
    ground: _Ground, stack: AsyncExitStack, executor: ExecutorAggregator
) -> tuple[RunService, RunCommands, Conversations]:
    settings, database, log_ = ground.settings, ground.database, ground.log
    relay = Relay(database, executor, log_, receipts=ground.receipts, ledger=ground.ledger)
    queue = RunQueue(Capacity(settings.max_concurrent_runs, settings.max_queued_runs))
    carrier = Carrier(database, relay, log_, queue=queue, tasks=ground.tasks)
    commands = RunCommands(database, carrier, process_id=ground.process_id)
    conversations = Conversations(database, ground.sessions, tool_id_of=tool_id_of)
    runs = RunService(
        database,
        log_,
        receipts=ground.receipts,
        ledger=ground.ledger,
        planner=ground.planner,
        queue=queue,
        carrier=carrier,
        commands=commands,
        conversations=conversations,
        process_id=ground.process_id,
    )
    stack.push_async_callback(runs.drain, within_s=DRAIN_S)
    succession = Succession(
        database,
        ground.planner,
        ground.billing,
        receipts=ground.receipts,
        queue=queue,
        carrier=carrier,
        process_id=ground.process_id,
    )
    reaper = Reaper(database, log_, ground.ledger, succession, process_id=ground.process_id)
    # Beside an embedded database there is no other process: whatever has not ended has died.
    await reaper.reap(**({"silent_s": 0.0} if settings.database_url is None else {}))
    ground.tasks.start_soon(reaper.watch)
    ground.tasks.start_soon(commands.watch)
    return runs, commands, conversations


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """The server's database: the operator's, or an embedded one that is migrated here."""
    async with AsyncExitStack() as stack:
        if settings.database_url is not None:
            yield await _opened(settings.database_url, stack)
            return
        embedded = await stack.enter_async_context(EmbeddedPostgres.start(settings.data_dir))
        database = await _opened(embedded.url, stack)
        await database.migrate()
        yield database


@asynccontextmanager
async def attach_database(settings: Settings) -> AsyncIterator[Database]:
    """The same database, also beside a server that runs on it."""
    async with AsyncExitStack() as stack:
        if settings.database_url is not None:
            yield await _opened(settings.database_url, stack)
            return
        embedded = await stack.enter_async_context(EmbeddedPostgres.attach(settings.data_dir))
        database = await _opened(embedded.url, stack)
        await database.migrate()
        yield database


async def _opened(url: str, stack: AsyncExitStack) -> Database:
    database = await Database.open(url)
    stack.push_async_callback(database.aclose)
    return database


def open_journal(settings: Settings, process_id: UUID) -> Journal:
    """This process's receipt journal; raises `JournalFailed`."""
    return Journal(settings.data_dir.absolute() / "journal", process_id)


async def open_log(settings: Settings, stack: AsyncExitStack) -> EventLog:
    """The event log, once it has answered."""
    event_log: EventLog = (
        MemoryEventLog() if settings.redis_url is None else RedisEventLog(settings.redis_url)
    )
    stack.push_async_callback(event_log.aclose)
    await event_log.ping()
    return event_log


@dataclass(frozen=True, slots=True)
class Agent:
    """The Claude Agent SDK with everything it stands on."""

    executor: ClaudeAgentExecutor
    access: ModelAccess
    starter: CliStarter


@asynccontextmanager
async def open_agent(
    settings: Settings, billing: LaneBilling, sessions: PostgresSessionStore, *, cli: Cli | None = None
) -> AsyncIterator[Agent]:
    """Run graphs of `claude_agents` while the body runs."""
    cli = cli or Cli(bundled_cli())
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(own_directory(settings.data_dir.absolute() / "runs"))
        access = await stack.enter_async_context(open_access(settings, cli, directory))
        starter = CliStarter(cli, directory, access, sessions, warm=settings.warm_pool)
        stack.push_async_callback(starter.aclose)
        executor = ClaudeAgentExecutor(
            access=access,
            billing=billing,
            starter=starter,
            servers=McpConnector(settings.mcp_secrets),
        )
        yield Agent(executor, access, starter)


@asynccontextmanager
async def open_access(settings: Settings, cli: Cli, directory: Path) -> AsyncIterator[ModelAccess]:
    """How CLIs reach their model, as RUNTALLY_CLAUDE_AUTH says."""
    if settings.claude_auth == "local_session":
        yield LoginAccess(cli, Login.of(settings.claude_config_dir), directory)
        return
    async with (
        Provider(
            base_url=settings.anthropic_base_url, api_key=_secret(settings.anthropic_api_key)
        ) as provider,
        Gateway(provider) as gateway,
    ):
        yield GatewayAccess(provider, gateway)


def _warm_up(starter: CliStarter, planner: Planner) -> None:
    """Have a process ready for the simplest run of the first graphs; later ones follow demand."""
    nobody = RunKey(AccountId(UUID(int=0)), RunId("none"))
    for graph in planner.graphs.all()[: starter.warm]:
        hello = Message.of(role="user", content="hello")
        request = GraphRunRequest.of(graph_id=graph.id, messages=[hello])
        key = ApiKeyId(UUID(int=0))
        starter.warm_up(planner.plan(nobody, request, api_key_id=key, request_id=None))


def _planner(settings: Settings) -> Planner:
    tools = ToolCatalog.load(settings.tools)
    graphs = GraphCatalog.load(
        graph_directories(settings), known_tools=tools.ids(), known_secrets=settings.mcp_secrets
    )
    prices = price_list(settings)
    models = model_registry(settings, prices)
    return Planner(graphs, models, tools, prices, timedelta(seconds=settings.run_timeout_s))


@asynccontextmanager
async def _open_webhooks(settings: Settings, database: Database) -> AsyncIterator[Webhooks]:
    """Deliver while the body runs; calls under way at its end are made again later."""
    async with (
        Addresses(allow_private=settings.webhook_allow_private) as addresses,
        Sender(addresses) as sender,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(Deliverer(database, sender).work)
        yield Webhooks(database, addresses)
        tasks.cancel_scope.cancel()


def _now() -> datetime:
    return datetime.now(UTC)


def price_list(settings: Settings) -> PriceList:
    """The prices of this server; raises `PriceFileError`."""
    own = [] if settings.prices_file is None else read_prices(settings.prices_file)
    return PriceList(own, markup=settings.markup)


def model_registry(settings: Settings, prices: PriceList) -> ModelRegistry:
    """The models of this server; raises `ModelFileError`, `UnknownModel` and `ModelNotPriced`."""
    own = None if settings.models_file is None else read_models(settings.models_file)
    return ModelRegistry(
        settings.default_model, own, is_priced=lambda model: prices.is_priced(model, at=_now())
    )


def graph_directories(settings: Settings) -> list[Path]:
    """Where this server's graphs are."""
    return [SHIPPED_GRAPHS, *([settings.graphs_dir] if settings.graphs_dir else [])]


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
