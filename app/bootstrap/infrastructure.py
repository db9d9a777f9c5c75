"""Opens what the services of runs depend on: storage, billing, executors."""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskGroup

from app.billing.chain.sealing import ChainSealer
from app.billing.credit.expiry.service import CreditExpiry
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.open_message_delivery import OpenMessageDelivery
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reports.service import BillingReports
from app.billing.statements.service import StatementMaker
from app.bootstrap.agent import Agent, open_agent, open_schema_checker
from app.bootstrap.catalogs import open_metrics, open_planner
from app.bootstrap.clock import open_clock, open_lease, watch_clock
from app.bootstrap.event_log import open_shared_log
from app.bootstrap.reconciliation import open_provider_accounting
from app.bootstrap.roles import Role
from app.bootstrap.storage import open_database, open_journal, open_objects, open_read_side, open_sealer
from app.bootstrap.telemetry.opening import open_telemetry, record_receipts
from app.conversations.transcript_store import TranscriptStore
from app.executors.claude_agent.process.cli import Cli
from app.executors.metering import BilledMetering
from app.ids import new_uuid
from app.platform.clock.clock import Clock
from app.platform.clock.lease import Lease
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.platform.metrics.egress import EgressMetrics
from app.platform.metrics.gateway import GatewayMetrics
from app.platform.metrics.server import ServerMetrics
from app.platform.objects.service import Objects
from app.platform.read_side import ReadSide
from app.platform.server.disk import Disk
from app.platform.server.memory import MemoryCeiling
from app.platform.settings import Settings
from app.platform.storage.service import StorageQuota
from app.platform.telemetry.service import Telemetry
from app.runs.planner import RunPlanner
from app.runs.requests.schema_preparation import SchemaPreparation
from app.streams.port import EventLog
from app.streams.process_channel import ProcessChannel
from app.workspaces.service import Workspaces

log = structlog.get_logger(__name__)

Work: TypeAlias = Callable[[], Coroutine[Any, Any, object]]
"""Goes on until it is cancelled."""


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """What the services of runs depend on."""

    settings: Settings
    role: Role
    process_id: UUID
    lease: Lease
    clock: Clock
    database: Database
    reading: ReadSide
    log: EventLog
    channel: ProcessChannel | None
    """To the other processes; None if there can be none."""
    receipts: ReceiptQueue
    delivery: ReceiptDelivery
    ledger: CreditLedger
    chain: ChainSealer
    billing: BillingReports
    sessions: TranscriptStore
    planner: RunPlanner
    workspaces: Workspaces
    schemas: SchemaPreparation
    agent: Agent | None
    """None in a process that executes no run."""
    memory: MemoryCeiling
    disk: Disk
    offload: Offload
    storage: StorageQuota
    telemetry: Telemetry
    metrics: ServerMetrics
    tasks: TaskGroup
    """Background tasks, among them the active runs; cancelled at the end."""

    @property
    def objects(self) -> Objects:
        return self.sessions.objects

    def require_ready(self) -> None:
        """Raise `Overloaded`, `JournalUnavailable` or `DiskNotWritable` while no run should start here."""
        self.memory.require_room()
        self.receipts.require_ready()
        self.disk.require_writable()


async def open_infrastructure(
    settings: Settings, stack: AsyncExitStack, *, role: Role, cli: Cli | None
) -> Infrastructure:
    """Open everything but the services of runs; `cli` replaces the bundled one."""
    process_id, planner = new_uuid(), open_planner(settings)
    # First, because it is closed last: the end of the last run is exported, too.
    telemetry, metrics = await open_telemetry(settings, process_id, stack), open_metrics(planner, role)
    await _require_usable(database := await stack.enter_async_context(open_database(settings, process_id)))
    chain, journal = open_sealer(settings, database), open_journal(settings, process_id)
    receipts, delivery, writing = _open_receipts(
        database, journal, planner.prices, telemetry=telemetry, metrics=metrics, stack=stack
    )
    clock, lease = await open_clock(database), open_lease(settings)
    ledger, objects = CreditLedger(database, clock), open_objects(settings, database, metrics.objects)
    sessions, reports = TranscriptStore(database, objects), BillingReports(database)
    workspaces = Workspaces(database, settings.allowed_host_roots, objects, clock=clock)
    schemas, offload = await stack.enter_async_context(open_schema_checker(settings)), Offload()
    accounting = await open_provider_accounting(settings, database, planner.prices, stack=stack)
    agent = None
    if role.executes_runs:
        metering = BilledMetering(
            *(receipts, ledger, planner.prices, accounting.calls, clock),
            find_profile=accounting.profiles.find,
            find_unpriced=reports.unpriced_of_month,
            lease=lease,
        )
        parts = _AgentParts(metering, sessions, workspaces, schemas, clock, metrics.gateway, metrics.egress)
        agent = await _open_agent(settings, database, parts, cli=cli, stack=stack)
    event_log, channel = await open_shared_log(settings, process_id, clock, stack=stack)
    reading = await stack.enter_async_context(open_read_side(settings, database))
    tasks = await _open_tasks(stack, *writing, *_upkeep(database, chain, clock), objects.sweep, reading.watch)
    accounting.start(tasks)
    return Infrastructure(
        settings=settings,
        role=role,
        process_id=process_id,
        lease=lease,
        clock=clock,
        database=database,
        reading=reading,
        log=event_log,
        channel=channel,
        receipts=receipts,
        delivery=delivery,
        ledger=ledger,
        chain=chain,
        billing=reports,
        sessions=sessions,
        planner=planner,
        workspaces=workspaces,
        schemas=SchemaPreparation(schemas, offload),
        agent=agent,
        memory=_open_memory(settings, tasks),
        disk=_open_disk(settings, agent, tasks),
        offload=offload,
        storage=StorageQuota(database, settings.max_storage_mb_per_account * 2**20 or None),
        telemetry=telemetry,
        metrics=metrics,
        tasks=tasks,
    )


async def _require_usable(database: Database) -> None:
    if database.is_pooled:
        log.info("database.pooled")
    if (newer := await database.require_usable()) is not None:
        log.warning("schema.newer", revision=newer)


@dataclass(frozen=True, slots=True)
class _AgentParts:
    """What executors depend on."""

    metering: BilledMetering
    sessions: TranscriptStore
    workspaces: Workspaces
    schemas: SchemaChecker
    clock: Clock
    metrics: GatewayMetrics
    egress: EgressMetrics


async def _open_agent(
    settings: Settings, database: Database, parts: _AgentParts, *, cli: Cli | None, stack: AsyncExitStack
) -> Agent:
    opened = open_agent(
        settings,
        parts.metering,
        parts.sessions,
        database=database,
        workspaces=parts.workspaces,
        schemas=parts.schemas,
        cli=cli,
        clock=parts.clock,
        metrics=parts.metrics,
        egress=parts.egress,
    )
    return await stack.enter_async_context(opened)


async def _open_tasks(stack: AsyncExitStack, *works: Work) -> TaskGroup:
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    for work in works:
        tasks.start_soon(work)
    return tasks


def _open_memory(settings: Settings, tasks: TaskGroup) -> MemoryCeiling:
    memory = MemoryCeiling(None if settings.max_memory_mb is None else settings.max_memory_mb * 2**20)
    tasks.start_soon(memory.watch)
    return memory


def _open_disk(settings: Settings, agent: Agent | None, tasks: TaskGroup) -> Disk:
    disk = Disk(settings.data_dir.absolute()) if agent is None else agent.disk
    tasks.start_soon(disk.watch)
    return disk


def _open_receipts(
    database: Database,
    journal: Journal,
    prices: PriceList,
    *,
    telemetry: Telemetry,
    metrics: ServerMetrics,
    stack: AsyncExitStack,
) -> tuple[ReceiptQueue, ReceiptDelivery, Sequence[Work]]:
    stack.callback(journal.close)
    queue = ReceiptQueue(journal, prices, metrics=metrics.receipts)
    delivery = ReceiptDelivery(
        database, queue, metrics=metrics.receipts, on_stored=partial(record_receipts, telemetry)
    )
    open_messages = OpenMessageDelivery(database, queue)
    stack.push_async_callback(open_messages.aclose)
    stack.push_async_callback(delivery.aclose)
    return queue, delivery, (delivery.work, delivery.keep_synced, open_messages.work)


def _upkeep(database: Database, chain: ChainSealer, clock: Clock) -> tuple[Work, ...]:
    """What keeps the books, in whatever process is first, and compares the clocks."""
    books = CreditExpiry(database, clock), StatementMaker(database, chain, clock)
    return chain.work, *(each.watch for each in books), partial(watch_clock, clock, database)
