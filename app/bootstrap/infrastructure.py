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
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.open_message_delivery import OpenMessageDelivery
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reports.service import BillingReports
from app.bootstrap.agent import Agent, open_agent, open_schema_checker
from app.bootstrap.catalogs import open_planner
from app.bootstrap.clock import open_clock, open_lease, watch_clock
from app.bootstrap.event_log import open_shared_log
from app.bootstrap.reconciliation import open_provider_accounting
from app.bootstrap.roles import Role
from app.bootstrap.storage import open_database, open_journal, open_sealer
from app.clock.lease import Lease
from app.concurrency.offload import Offload
from app.conversations.sdk_store import PostgresSessionStore
from app.db import Database
from app.executors.claude_agent.process.cli import Cli
from app.executors.metering import BilledMetering
from app.ids import new_uuid
from app.json_schema.checker import SchemaChecker
from app.runs.planner import RunPlanner
from app.server.memory import MemoryCeiling
from app.settings import Settings
from app.storage.service import StorageQuota
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
    database: Database
    log: EventLog
    channel: ProcessChannel | None
    """To the other processes; None if there can be none."""
    receipts: ReceiptQueue
    delivery: ReceiptDelivery
    ledger: CreditLedger
    chain: ChainSealer
    billing: BillingReports
    sessions: PostgresSessionStore
    planner: RunPlanner
    workspaces: Workspaces
    schemas: SchemaChecker
    agent: Agent | None
    """None in a process that executes no run."""
    memory: MemoryCeiling
    offload: Offload
    storage: StorageQuota
    tasks: TaskGroup
    """Background tasks, among them the active runs; cancelled at the end."""

    def require_ready(self) -> None:
        """Raise `Overloaded` or `JournalUnavailable` while this process should start no run."""
        self.memory.require_room()
        self.receipts.require_ready()


async def open_infrastructure(
    settings: Settings, stack: AsyncExitStack, *, role: Role, cli: Cli | None
) -> Infrastructure:
    """Open everything but the services of runs; `cli` replaces the bundled one."""
    process_id, planner = new_uuid(), open_planner(settings)
    database = await stack.enter_async_context(open_database(settings, process_id))
    await _require_usable_schema(database)
    chain, journal = open_sealer(settings, database), open_journal(settings, process_id)
    receipts, delivery, writing = _open_receipts(database, journal, planner.prices, stack=stack)
    clock, lease = await open_clock(database), open_lease(settings)
    ledger, sessions = CreditLedger(database, clock), PostgresSessionStore(database)
    workspaces = Workspaces(database, settings.allowed_host_roots)
    schemas = await stack.enter_async_context(open_schema_checker(settings))
    accounting = await open_provider_accounting(settings, database, planner.prices, stack=stack)
    reports = BillingReports(database)
    metering = BilledMetering(
        *(receipts, ledger, planner.prices, accounting.calls, clock),
        find_profile=accounting.profiles.find,
        find_unpriced=reports.unpriced_of_month,
        lease=lease,
    )
    agent = None
    if role.executes_runs:
        opened = open_agent(
            settings,
            metering,
            sessions,
            database=database,
            workspaces=workspaces,
            schemas=schemas,
            cli=cli,
            clock=clock,
        )
        agent = await stack.enter_async_context(opened)
    event_log, channel = await open_shared_log(settings, process_id, stack)
    tasks = await _open_tasks(stack, *writing, chain.work, partial(watch_clock, clock, database))
    accounting.start(tasks)
    return Infrastructure(
        settings=settings,
        role=role,
        process_id=process_id,
        lease=lease,
        database=database,
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
        schemas=schemas,
        agent=agent,
        memory=_open_memory(settings, tasks),
        offload=Offload(),
        storage=StorageQuota(database, settings.max_storage_mb_per_account * 2**20 or None),
        tasks=tasks,
    )


async def _require_usable_schema(database: Database) -> None:
    if (newer := await database.require_usable_schema()) is not None:
        log.warning("schema.newer", revision=newer)


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


def _open_receipts(
    database: Database, journal: Journal, prices: PriceList, *, stack: AsyncExitStack
) -> tuple[ReceiptQueue, ReceiptDelivery, Sequence[Work]]:
    stack.callback(journal.close)
    queue = ReceiptQueue(journal, prices)
    delivery, open_messages = ReceiptDelivery(database, queue), OpenMessageDelivery(database, queue)
    stack.push_async_callback(open_messages.aclose)
    stack.push_async_callback(delivery.aclose)
    return queue, delivery, (delivery.work, delivery.keep_synced, open_messages.work)
