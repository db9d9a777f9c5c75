"""Commands that wait in the database for a run of another process."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from app.db import Database
from app.executors.inbox import MessageLimits, MessageQueueFull
from app.executors.port import ABORTED, ExecutionFailed, Preview, RunContext, RunPlan
from app.graphs.spec import GraphSpec
from app.ids import RunKey
from app.requests import GraphRunRequest, Message
from app.runs.commands.repository import (
    answer_command,
    command_answer,
    commands_for,
    insert_command,
    pending_commands,
)
from app.runs.commands.service import ChangeMode, Send
from tests.factories import a_plan
from tests.integration.run_process import ELSEWHERE, GRAPH, a_process, a_run_elsewhere


async def test_commands_for_another_process_are_limited(database: Database, tmp_path: Path) -> None:
    run = await a_run_elsewhere(database)
    async with a_process(database, tmp_path, limits=MessageLimits(count=2, size=1000)) as process:
        for _ in range(2):
            with anyio.move_on_after(0.2):
                await process.commands.submit(run, ChangeMode(mode="plan"))
        with pytest.raises(MessageQueueFull):
            await process.commands.submit(run, ChangeMode(mode="plan"))


async def test_bytes_for_another_process_are_limited(database: Database, tmp_path: Path) -> None:
    run = await a_run_elsewhere(database)
    async with a_process(database, tmp_path, limits=MessageLimits(count=100, size=1000)) as process:
        long = Send(message_id="m1", content="x" * 1000, priority="next")
        with anyio.move_on_after(0.2):
            await process.commands.submit(run, long)
        with pytest.raises(MessageQueueFull):
            await process.commands.submit(run, long)


async def test_cancelling_a_run_of_another_process_a_hundred_times_is_one_command(
    database: Database, tmp_path: Path
) -> None:
    run = await a_run_elsewhere(database)
    async with a_process(database, tmp_path, limits=MessageLimits(count=2, size=1000)) as process:
        for _ in range(100):
            await process.commands.stop(run, "cancel")
    async with database.snapshot() as reader:
        (waiting,) = await commands_for(reader, ELSEWHERE, besides=(), limit=10)
        assert await commands_for(reader, ELSEWHERE, besides=[waiting.id], limit=10) == []

    async with database.transaction() as tx:
        await answer_command(tx, waiting.id, {"done": {}})
        assert (await pending_commands(tx, run)).count == 0


class WaitingExecutor:
    """An executor whose runs wait until they are stopped."""

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        await context.control.stop.wait()
        raise ExecutionFailed(*ABORTED)

    async def preview(self, _request: GraphRunRequest, _plan: RunPlan) -> Preview:
        return Preview(system_prompt="", prompt=(), options={})


async def answer_of(database: Database, run: RunKey, command: dict[str, Any]) -> dict[str, Any]:
    """What the process that executes a run answers to a command from another process."""
    async with database.transaction() as tx:
        command_id = await insert_command(tx, run, command)
    async with asyncio.timeout(10):
        while True:
            async with database.snapshot() as reader:
                if (answer := await command_answer(reader, command_id)) is not None:
                    return answer
            await asyncio.sleep(0.05)


async def test_a_command_that_fails_ends_neither_its_run_nor_other_commands(
    database: Database, tmp_path: Path
) -> None:
    """Such as one of a newer server, which this one does not know."""
    run = await a_run_elsewhere(database)
    request = GraphRunRequest.of(graph_id=GRAPH, messages=[Message.of(role="user", content="go")])
    spec = GraphSpec(name="planner", description="d", system_prompt="p", permission_modes=("plan",))
    async with a_process(database, tmp_path, executor=WaitingExecutor(), process_id=ELSEWHERE) as process:
        process.dispatcher.admit(run.account_id)
        process.supervisor.start(a_plan(run=run, spec=spec), request)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.commands.watch)
            unknown = await answer_of(database, run, {"type": "pause"})
            known = await answer_of(database, run, {"type": "change_mode", "mode": "plan"})
            still_there = process.supervisor.is_active(run)
            tasks.cancel_scope.cancel()
        await process.commands.stop(run, "cancel")

    assert unknown["refused"]["code"] == "internal"
    assert known == {"done": {}}
    assert still_there
