from pathlib import Path
from typing import Any

import structlog

from app.db import Database
from app.events import AssistantFinal
from app.executors.port import Preview, RunContext, RunPlan
from app.requests import GraphRunRequest, Message
from tests.factories import a_plan
from tests.integration.run_process import GRAPH, a_process, a_run_elsewhere


class Witness:
    """An executor that remembers what its log lines would name."""

    def __init__(self) -> None:
        self.bound: list[dict[str, Any]] = []

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        self.bound.append(structlog.contextvars.get_contextvars())
        await context.events.publish(AssistantFinal(content="done"))

    def preview(self, _request: GraphRunRequest, _plan: RunPlan) -> Preview:
        return Preview(system_prompt="", prompt=(), options={})


async def test_log_lines_of_a_run_name_nothing_of_what_started_it(database: Database, tmp_path: Path) -> None:
    run, witness = await a_run_elsewhere(database), Witness()
    request = GraphRunRequest.of(graph_id=GRAPH, messages=[Message.of(role="user", content="go")])

    async with a_process(database, tmp_path, executor=witness) as process:
        process.dispatcher.admit(run.account_id)
        with structlog.contextvars.bound_contextvars(run_id="another", account="another"):
            process.supervisor.start(a_plan(run=run), request)
        active = process.supervisor.find(run)
        assert active is not None
        await active.ended.wait()

    assert active.final is not None
    assert active.final.ok
    assert witness.bound == [{"run_id": run.run_id, "request_id": None}]
