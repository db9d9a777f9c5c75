"""Which runs are executed when, and what they leave behind in their process."""

import asyncio
from pathlib import Path
from typing import Any

import structlog

from app.events import AssistantFinal
from app.executors.port import ABORTED, ExecutionFailed, RunContext
from app.ids import RunKey
from app.platform.db import Database
from app.requests.run_request import GraphRunRequest
from tests.factories import a_plan, not_none
from tests.integration.run_process import REQUEST, Executing, a_process, a_run_elsewhere, record_of
from tests.patience import PATIENCE_S


class Witness:
    """An executor that remembers what its log lines would name."""

    def __init__(self) -> None:
        self.bound: list[dict[str, Any]] = []

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        self.bound.append(structlog.contextvars.get_contextvars())
        await context.events.publish(AssistantFinal(content="done"))


async def test_log_lines_of_a_run_name_nothing_of_what_started_it(database: Database, tmp_path: Path) -> None:
    run, witness = await a_run_elsewhere(database), Witness()
    plan = a_plan(run=run)

    async with a_process(database, tmp_path, executor=witness) as process:
        with structlog.contextvars.bound_contextvars(run_id="another", account="another"):
            process.supervisor.start(plan, REQUEST)
        active = not_none(process.supervisor.find(run))
        await active.ended.wait()

    assert active.final is not None
    assert active.final.ok
    key_id = str(plan.attribution.api_key_id)
    assert witness.bound == [{"run_id": run.run_id, "account_id": str(run.account_id), "key_id": key_id}]


async def test_the_end_of_a_run_gives_back_its_place(database: Database, tmp_path: Path) -> None:
    run = await a_run_elsewhere(database)

    async with a_process(database, tmp_path) as process:
        process.places.take()
        active = process.supervisor.start(a_plan(run=run), REQUEST)
        await active.ended.wait()

        assert process.places.taken == 0


async def test_a_run_that_is_stopped_before_it_starts_is_not_executed(
    database: Database, tmp_path: Path
) -> None:
    run, executed = await a_run_elsewhere(database), list[RunKey]()

    async def note(context: RunContext) -> None:
        executed.append(context.plan.run)

    async with a_process(database, tmp_path, executor=Executing(note)) as process:
        process.supervisor.start(a_plan(run=run), REQUEST)
        active = not_none(process.supervisor.find(run))
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
        process.supervisor.start(a_plan(run=run), REQUEST)
        active = process.supervisor.find(run)
        await started.wait()
        process.supervisor.stop()
        assert await process.supervisor.wait_idle(within_s=PATIENCE_S)
        assert active is not None
        assert active.control.stop.is_set()

    assert (await record_of(database, run)).status == "cancelled"
