"""How the end of a run is stored and published."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from app.db import Database
from app.events import AssistantFinal, ClientEvent, Done, TextDelta
from app.executors.port import Preview, RunContext, RunPlan
from app.ids import RunKey
from app.requests import GraphRunRequest, Message
from app.runs.records import RunRecord
from app.runs.repository import claim_run, find_run, stored_events
from app.streams.memory import MemoryEventLog
from tests.factories import a_plan
from tests.integration.run_process import ELSEWHERE, GRAPH, a_process, a_run_elsewhere

REQUEST = GraphRunRequest.of(graph_id=GRAPH, messages=[Message.of(role="user", content="go")])


@dataclass(frozen=True, slots=True)
class Answering:
    """An executor that answers, once it may."""

    may_answer: asyncio.Event
    began: asyncio.Event

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        await context.events.publish(TextDelta(message_id="m", delta="hello"))
        self.began.set()
        await self.may_answer.wait()
        await context.events.publish(AssistantFinal(content="hello"))

    def preview(self, _request: GraphRunRequest, _plan: RunPlan) -> Preview:
        return Preview(system_prompt="", prompt=(), options={})


class WitnessLog(MemoryEventLog):
    """Looks, when a run's end is published, whether the run is stored already."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self.stored_before_end: list[bool] = []

    async def append(self, run: RunKey, event: ClientEvent) -> int:
        if isinstance(event, Done):
            self.stored_before_end.append((await record_of(self._database, run)).finished)
        return await super().append(run, event)


async def record_of(database: Database, run: RunKey) -> RunRecord:
    async with database.snapshot() as reader:
        record = await find_run(reader, run)
    assert record is not None
    return record


async def test_a_run_is_stored_before_readers_see_its_end(database: Database, tmp_path: Path) -> None:
    run, log = await a_run_elsewhere(database), WitnessLog(database)
    executor = Answering(asyncio.Event(), asyncio.Event())
    executor.may_answer.set()

    async with a_process(database, tmp_path, executor=executor, log=log) as process:
        process.dispatcher.admit(run.account_id)
        process.supervisor.start(a_plan(run=run), REQUEST)

    assert log.stored_before_end == [True]
    assert (await record_of(database, run)).status == "succeeded"


async def test_a_process_presumed_dead_stores_nothing_of_an_earlier_attempt(
    database: Database, tmp_path: Path
) -> None:
    run = await a_run_elsewhere(database)
    executor = Answering(asyncio.Event(), asyncio.Event())

    async with a_process(database, tmp_path, executor=executor) as process:
        process.dispatcher.admit(run.account_id)
        process.supervisor.start(a_plan(run=run), REQUEST)
        await executor.began.wait()
        async with database.transaction() as tx:
            await claim_run(tx, run, process_id=ELSEWHERE)
        executor.may_answer.set()

    record = await record_of(database, run)
    assert (record.status, record.attempt, record.final) == ("queued", 1, None)
    async with database.snapshot() as reader:
        assert await stored_events(reader, run) == []
