"""The parts of a server process that execute runs, without the HTTP API."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import anyio

from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.clock.lease import Lease
from app.concurrency.offload import Offload
from app.db import Database
from app.events import AssistantFinal
from app.executors.aggregator import ExecutorAggregator
from app.executors.inbox import MessageLimits
from app.executors.port import GraphExecutor, Preview, RunContext, RunPlan
from app.ids import RunId, RunKey, new_uuid
from app.requests import GraphRunRequest, Message
from app.runs.commands.service import RunCommands
from app.runs.dispatcher import Capacity, RunDispatcher
from app.runs.records import NewRun, RunRecord
from app.runs.repository import find_run, insert_run
from app.runs.requests.codec import RequestCodec
from app.runs.supervisor import RunSupervisor
from app.runs.worker import RunWorker
from app.streams.memory import MemoryEventLog
from app.streams.port import EventLog
from tests.factories import an_account

ELSEWHERE = new_uuid()
GRAPH = "claude_agents:assistant"
REQUEST = GraphRunRequest.of(graph_id=GRAPH, messages=[Message.of(role="user", content="go")])


async def a_run_elsewhere(database: Database, key: KeyRecord | None = None, *, name: str = "run-1") -> RunKey:
    key = key or await an_account(database)
    run = RunKey(key.account_id, RunId(name))
    new = NewRun(run, key.id, GRAPH, "claude-sonnet-4-5", "{}", "", b"", None, ELSEWHERE)
    async with database.transaction() as tx:
        await insert_run(tx, new)
    return run


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

    async def preview(self, _request: GraphRunRequest, _plan: RunPlan) -> Preview:
        return Preview(system_prompt="", prompt=(), options={})


@dataclass(frozen=True, slots=True)
class Process:
    """The parts of a server process that execute runs."""

    process_id: UUID
    dispatcher: RunDispatcher
    supervisor: RunSupervisor
    commands: RunCommands
    log: EventLog
    receipts: ReceiptQueue
    ledger: CreditLedger
    codec: RequestCodec
    lease: Lease


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
    capacity: Capacity | None = None,
) -> AsyncIterator[Process]:
    log, journal = MemoryEventLog() if log is None else log, Journal(directory, new_uuid())
    receipts = ReceiptQueue(journal, PriceList())
    lease = lease or Lease()
    limits, process_id = limits or MessageLimits(), process_id or new_uuid()
    ledger, codec = CreditLedger(database), RequestCodec(Offload())
    async with anyio.create_task_group() as tasks:
        worker = RunWorker(
            database,
            executor or ExecutorAggregator({}),
            log,
            receipts=receipts,
            ledger=ledger,
            codec=codec,
            max_output_bytes=2**20,
            store_retry_s=0.01,
            lease=lease,
        )
        dispatcher = RunDispatcher(capacity or Capacity.of(1, 1))
        supervisor = RunSupervisor(
            database,
            worker,
            log,
            dispatcher=dispatcher,
            tasks=tasks,
            message_limits=limits,
            lease=lease,
        )
        commands = RunCommands(database, supervisor, process_id=process_id, limits=limits)
        yield Process(process_id, dispatcher, supervisor, commands, log, receipts, ledger, codec, lease)
    journal.close()
