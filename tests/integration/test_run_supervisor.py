"""Which runs are executed when, and what they leave behind in their process."""

import asyncio
from pathlib import Path
from typing import Any

import structlog

from app.db import Database
from app.events import AssistantFinal, ClientEvent, Queued
from app.executors.port import ABORTED, ExecutionFailed, Preview, RunContext, RunPlan
from app.ids import RunId, RunKey
from app.requests import GraphRunRequest
from app.streams.memory import MemoryEventLog
from tests.factories import a_plan, an_account
from tests.integration.conversations import a_turn, end_run
from tests.integration.run_process import REQUEST, Executing, a_process, a_run_elsewhere, record_of


class Witness:
    """An executor that remembers what its log lines would name."""

    def __init__(self) -> None:
        self.bound: list[dict[str, Any]] = []

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        self.bound.append(structlog.contextvars.get_contextvars())
        await context.events.publish(AssistantFinal(content="done"))

    async def preview(self, _request: GraphRunRequest, _plan: RunPlan) -> Preview:
        return Preview(system_prompt="", prompt=(), options={})


async def test_log_lines_of_a_run_name_nothing_of_what_started_it(database: Database, tmp_path: Path) -> None:
    run, witness = await a_run_elsewhere(database), Witness()

    async with a_process(database, tmp_path, executor=witness) as process:
        process.dispatcher.admit(run.account_id)
        with structlog.contextvars.bound_contextvars(run_id="another", account="another"):
            process.supervisor.start(a_plan(run=run), REQUEST)
        active = process.supervisor.find(run)
        assert active is not None
        await active.ended.wait()

    assert active.final is not None
    assert active.final.ok
    assert witness.bound == [{"run_id": run.run_id, "request_id": None}]


class EndingLog(MemoryEventLog):
    """Ends another run once a run is queued."""

    def __init__(self, database: Database, other: RunKey) -> None:
        super().__init__()
        self._database = database
        self._other = other

    async def append(self, run: RunKey, event: ClientEvent) -> int:
        if isinstance(event, Queued):
            await end_run(self._database, self._other)
        return await super().append(run, event)


async def test_a_run_waits_for_the_earlier_turns_of_its_conversation(
    database: Database, tmp_path: Path
) -> None:
    key = await an_account(database)
    earlier, run = (RunKey(key.account_id, RunId(run_id)) for run_id in ("r1", "r2"))
    await a_turn(database, key, earlier.run_id, ended=False)
    conversation = await a_turn(database, key, run.run_id, ended=False)
    ended_before: list[bool] = []

    async def look(_context: RunContext) -> None:
        ended_before.append((await record_of(database, earlier)).finished)

    log = EndingLog(database, earlier)
    async with a_process(database, tmp_path, executor=Executing(look), log=log) as process:
        process.dispatcher.admit(run.account_id)
        process.supervisor.start(a_plan(run=run, conversation=conversation), REQUEST)

    assert ended_before == [True]


async def test_an_ended_run_takes_no_place_in_the_queue(database: Database, tmp_path: Path) -> None:
    run = await a_run_elsewhere(database)

    async with a_process(database, tmp_path) as process:
        process.dispatcher.admit(run.account_id)
        process.supervisor.start(a_plan(run=run), REQUEST)
        active = process.supervisor.find(run)
        assert active is not None
        await active.ended.wait()

        with process.dispatcher.admission(run.account_id), process.dispatcher.admission(run.account_id):
            assert not process.supervisor.active_attempts()


async def test_a_run_that_is_stopped_before_it_starts_is_not_executed(
    database: Database, tmp_path: Path
) -> None:
    run, executed = await a_run_elsewhere(database), list[RunKey]()

    async def note(context: RunContext) -> None:
        executed.append(context.plan.run)

    async with a_process(database, tmp_path, executor=Executing(note)) as process:
        process.dispatcher.admit(run.account_id)
        process.supervisor.start(a_plan(run=run), REQUEST)
        active = process.supervisor.find(run)
        assert active is not None
        await active.control.cancel()

    assert executed == []
    assert (await record_of(database, run)).status == "cancelled"


async def test_a_process_that_drains_stops_the_runs_that_do_not_end(
    database: Database, tmp_path: Path
) -> None:
    run, started = await a_run_elsewhere(database), asyncio.Event()

    async def until_stopped(context: RunContext) -> None:
        started.set()
        await context.control.stop.wait()
        raise ExecutionFailed(*ABORTED)

    async with a_process(database, tmp_path, executor=Executing(until_stopped)) as process:
        process.dispatcher.admit(run.account_id)
        process.supervisor.start(a_plan(run=run), REQUEST)
        active = process.supervisor.find(run)
        await started.wait()
        await process.supervisor.drain(within_s=0)
        assert active is not None
        assert active.control.stop.is_set()

    assert (await record_of(database, run)).status == "cancelled"
