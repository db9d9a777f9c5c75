"""The parts of a server process that execute runs, without the HTTP API."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reports.service import BillingReports
from app.conversations.history import ConversationHistory
from app.conversations.transcript_store import TranscriptStore
from app.events import AssistantFinal
from app.executors.aggregator import ExecutorAggregator
from app.executors.inbox import MessageLimits
from app.executors.port import GraphExecutor, RunContext
from app.graphs.catalog import GraphCatalog
from app.graphs.spec import GraphSpec
from app.ids import RunId, RunKey, new_uuid
from app.platform.clock.clock import Clock
from app.platform.clock.lease import Lease
from app.platform.concurrency.offload import Offload
from app.platform.db import Database, Transaction
from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.memory import MemoryCeiling
from app.platform.storage.service import StorageQuota
from app.platform.telemetry.service import Telemetry
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.runs.closing import RunCloser
from app.runs.commands.pending import pending_commands
from app.runs.commands.queued import QueuedRuns
from app.runs.commands.receiver import CommandReceiver
from app.runs.commands.remote import CommandSender
from app.runs.commands.service import WITHIN_S, RunCommands
from app.runs.conversations.undelivered import UndeliveredMessages
from app.runs.dispatch.insertion.repository import insert_run
from app.runs.dispatch.limits import DispatchLimits
from app.runs.dispatch.places import Places
from app.runs.dispatch.queue import RunQueue
from app.runs.records import NewRun, RunRecord
from app.runs.repository import find_run
from app.runs.requests.attachments import DEFAULT_RULES
from app.runs.requests.codec import RequestCodec
from app.runs.requeueing.repository import requeue_run
from app.runs.supervisor import RunSupervisor
from app.runs.worker import RunWorker
from app.streams.memory import MemoryEventLog
from app.streams.port import EventLog
from app.streams.process_channel import ProcessChannel
from app.streams.relay.client import Relay
from tests.factories import an_account
from tests.patience import PATIENCE_S

ELSEWHERE = new_uuid()
UNLIMITED = DispatchLimits(10**6, per_account=10**6)
GRAPH = "claude_agents:assistant"
REQUEST = GraphRunRequest.of(graph_id=GRAPH, messages=[Message.of(role="user", content="go")])


async def a_run_elsewhere(
    database: Database, key: KeyRecord | None = None, *, name: str = "run-1", process_id: UUID = ELSEWHERE
) -> RunKey:
    key = key or await an_account(database)
    run = RunKey(key.account_id, RunId(name))
    async with database.transaction() as tx:
        await insert(tx, NewRun(run, key.id, GRAPH, "claude-sonnet-4-5", "{}", "", b"", None, process_id))
    return run


async def insert(tx: Transaction, new: NewRun, *, starts_at_once: bool = True) -> RunRecord:
    """Insert a run that its process has started at once, or a queued one."""
    record = await insert_run(tx, replace(new, starts_at_once=starts_at_once), limits=UNLIMITED)
    assert record is not None
    return record


def undelivered_over(database: Database) -> UndeliveredMessages:
    """What passes messages on."""
    history = ConversationHistory(TranscriptStore(database), tool_id_of=str)
    return UndeliveredMessages(database, history, codec=RequestCodec(Offload()), rules=DEFAULT_RULES)


async def begin_next_attempt(tx: Transaction, run: RunKey, process_id: UUID = ELSEWHERE) -> None:
    """Another process resumes a run."""
    await requeue_run(tx, run)
    statement = "UPDATE runs SET status = 'running', process_id = :process WHERE run_id = :run_id"
    await tx.execute(text(statement), {"process": process_id, "run_id": run.run_id})


async def record_of(database: Database, run: RunKey) -> RunRecord:
    async with database.snapshot() as reader:
        record = await find_run(reader, run)
    assert record is not None
    return record


@dataclass(frozen=True, slots=True)
class Executing:
    """An executor that does one thing and then answers."""

    do: Callable[[RunContext], Awaitable[object]]

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        await self.do(context)
        await context.events.publish(AssistantFinal(content="done"))


@dataclass(frozen=True, slots=True)
class Process:
    """The parts of a server process that execute runs."""

    process_id: UUID
    queue: RunQueue
    places: Places
    closer: RunCloser
    supervisor: RunSupervisor
    queued: QueuedRuns
    commands: RunCommands
    log: EventLog
    receipts: ReceiptQueue
    ledger: CreditLedger
    codec: RequestCodec
    lease: Lease
    tasks: TaskGroup
    channel: ProcessChannel | None
    telemetry: Telemetry


def _a_worker(
    database: Database,
    executor: GraphExecutor | None,
    log: EventLog,
    *,
    receipts: ReceiptQueue,
    queue: RunQueue,
    lease: Lease,
) -> RunWorker:
    return RunWorker(
        *(database, executor or ExecutorAggregator({}), log),
        complete=undelivered_over(database).add,
        receipts=receipts,
        ledger=CreditLedger(database),
        queue=queue,
        pending=pending_commands,
        max_output_bytes=2**20,
        store_retry_s=0.01,
        lease=lease,
    )


@asynccontextmanager
async def a_process(
    database: Database,
    directory: Path,
    *,
    limits: MessageLimits | None = None,
    executor: GraphExecutor | None = None,
    process_id: UUID | None = None,
    log: EventLog | None = None,
    lease: Lease | None = None,
    dispatch: DispatchLimits | None = None,
    places: int = 1,
    graphs: Sequence[GraphSpec] = (),
    max_bytes: int | None = None,
    relay: Relay | None = None,
    within_s: float = WITHIN_S,
    memory: MemoryCeiling | None = None,
    telemetry: Telemetry | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Process]:
    """`relay` leads to other processes; `within_s`: how long its commands to them are repeated."""
    log, journal = MemoryEventLog() if log is None else log, Journal(directory, new_uuid())
    receipts, ledger = ReceiptQueue(journal, PriceList()), CreditLedger(database)
    lease, limits, telemetry = lease or Lease(), limits or MessageLimits(), telemetry or Telemetry()
    process_id, room, reports = process_id or new_uuid(), Places(places), BillingReports(database)
    queue = RunQueue(database, process_id, dispatch or DispatchLimits(100))
    closer = RunCloser(log, queue, receipts=receipts, ledger=ledger, reports=reports, telemetry=telemetry)
    worker = _a_worker(database, executor, log, receipts=receipts, queue=queue, lease=lease)
    async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        supervisor = RunSupervisor(
            *(database, worker, log),
            places=room,
            tasks=tasks,
            message_limits=limits,
            lease=lease,
            telemetry=telemetry,
            clock=clock or Clock(),
        )
        schemas = await stack.enter_async_context(SchemaChecker(workers=1, check_s=PATIENCE_S))
        queued = QueuedRuns(
            *(database, closer, GraphCatalog(graphs), StorageQuota(database, max_bytes), limits),
            schemas=schemas,
        )
        channel = None if relay is None else ProcessChannel(relay, process_id)
        commands = RunCommands(
            database,
            supervisor,
            process_id=process_id,
            queued=queued,
            limits=limits,
            sender=None if channel is None else _open_commands(channel, supervisor, memory, stack),
            within_s=within_s,
            # Also a busy machine ends queued runs at once then.
            cancel_within_s=within_s,
        )
        yield Process(
            *(process_id, queue, room, closer, supervisor, queued, commands, log, receipts, ledger),
            *(RequestCodec(Offload()), lease, tasks, channel, telemetry),
        )
    journal.close()


def _open_commands(
    channel: ProcessChannel, supervisor: RunSupervisor, memory: MemoryCeiling | None, stack: AsyncExitStack
) -> CommandSender:
    offload = Offload()
    stack.push_async_callback(channel.aclose)
    receiver = CommandReceiver(channel, supervisor, offload=offload, memory=memory or MemoryCeiling(2**40))
    stack.push_async_callback(receiver.aclose)
    return CommandSender(channel, offload)
