"""What waits in the database for a run that another process carries."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from app.billing.journal import Journal
from app.billing.ledger import CreditLedger
from app.billing.pricing import PriceList
from app.billing.receipt_queue import ReceiptQueue
from app.concurrency.offload import Offload
from app.db import Database
from app.executors.aggregator import ExecutorAggregator
from app.executors.inbox import MessageLimits, MessageQueueFull
from app.ids import RunId, RunKey, new_uuid
from app.runs.commands.repository import answer_command, commands_for, pending_commands
from app.runs.commands.service import ChangeMode, RunCommands, Send
from app.runs.dispatcher import Capacity, RunDispatcher
from app.runs.records import NewRun
from app.runs.repository import insert_run
from app.runs.request_codec import RequestCodec
from app.runs.supervisor import RunSupervisor
from app.runs.worker import RunWorker
from app.streams.memory import MemoryEventLog
from tests.factories import an_account

ELSEWHERE = new_uuid()


async def a_run_elsewhere(database: Database) -> RunKey:
    key = await an_account(database)
    run = RunKey(key.account_id, RunId("run-1"))
    new = NewRun(run, key.id, "claude_agents:assistant", "claude-sonnet-4-5", "{}", "", b"", None, ELSEWHERE)
    async with database.transaction() as tx:
        await insert_run(tx, new)
    return run


@asynccontextmanager
async def commands_over(
    database: Database, directory: Path, limits: MessageLimits
) -> AsyncIterator[RunCommands]:
    log, journal = MemoryEventLog(), Journal(directory, new_uuid())
    receipts = ReceiptQueue(journal, PriceList())
    async with anyio.create_task_group() as tasks:
        worker = RunWorker(
            database,
            ExecutorAggregator({}),
            log,
            receipts=receipts,
            ledger=CreditLedger(database),
            codec=RequestCodec(Offload()),
            max_output_bytes=2**20,
        )
        supervisor = RunSupervisor(
            database,
            worker,
            log,
            dispatcher=RunDispatcher(Capacity.of(1, 1)),
            tasks=tasks,
            message_limits=limits,
        )
        yield RunCommands(database, supervisor, process_id=new_uuid(), limits=limits)
    journal.close()


async def test_only_so_many_commands_wait_for_another_process(database: Database, tmp_path: Path) -> None:
    run = await a_run_elsewhere(database)
    async with commands_over(database, tmp_path, MessageLimits(count=2, size=1000)) as commands:
        for _ in range(2):
            with anyio.move_on_after(0.2):
                await commands.submit(run, ChangeMode(mode="plan"))
        with pytest.raises(MessageQueueFull):
            await commands.submit(run, ChangeMode(mode="plan"))


async def test_only_so_many_bytes_wait_for_another_process(database: Database, tmp_path: Path) -> None:
    run = await a_run_elsewhere(database)
    async with commands_over(database, tmp_path, MessageLimits(count=100, size=1000)) as commands:
        long = Send(message_id="m1", content="x" * 1000, priority="next")
        with anyio.move_on_after(0.2):
            await commands.submit(run, long)
        with pytest.raises(MessageQueueFull):
            await commands.submit(run, long)


async def test_to_cancel_a_run_elsewhere_a_hundred_times_is_one_command(
    database: Database, tmp_path: Path
) -> None:
    run = await a_run_elsewhere(database)
    async with commands_over(database, tmp_path, MessageLimits(count=2, size=1000)) as commands:
        for _ in range(100):
            await commands.stop(run, "cancel")
    async with database.snapshot() as reader:
        (waiting,) = await commands_for(reader, ELSEWHERE, besides=(), limit=10)
        assert await commands_for(reader, ELSEWHERE, besides=[waiting.id], limit=10) == []

    async with database.transaction() as tx:
        await answer_command(tx, waiting.id, {"done": {}})
        assert (await pending_commands(tx, run)).count == 0
