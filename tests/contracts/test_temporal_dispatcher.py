"""What only the dispatcher on Temporal promises: when its server is away, and what people do there."""

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

from app.ids import RunKey
from app.platform.db import Database
from app.platform.temporal.connection import TemporalUnavailable
from app.runs.dispatch.temporal.submission import SUBMITTED_AGAIN_AFTER
from app.runs.dispatch.temporal.workflows import workflow_id_of
from tests.contracts.dispatching import a_fleet
from tests.contracts.temporal import TemporalServer, a_temporal_server
from tests.e2e.stories import until
from tests.factories import an_account
from tests.integration.run_service import RETRIED, a_request, caller_of
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.long

Workflow: TypeAlias = WorkflowHandle[Any, Any]


async def test_a_worker_that_stands_still_keeps_no_run(
    database: Database, database_url: str, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    """Its open poll may get a run all the same; so may that of a run which it has lost."""
    async with a_fleet(database, database_url, tmp_path, temporal_server) as fleet:
        fleet.go_on.set()
        api, spawned = await fleet.join(0, per_account=8), await fleet.spawn(2)
        caller = caller_of(await an_account(database))
        request = a_request(RETRIED, prompt="lost", state_key="chat")
        lost = await api.service.start(caller, request, request_id=None)
        await fleet.until([lost], running=1)
        spawned.send_signal(signal.SIGSTOP)
        try:
            late = await api.start(prompt="late")
            await fleet.join(2, per_account=8)
            await fleet.until([lost, late], succeeded=2)
        finally:
            spawned.kill()
            await spawned.wait()

        assert Counter(fleet.executed) == {"lost": 1, "late": 1}
        assert [(await fleet.record(run.key)).attempt for run in (lost, late)] == [1, 0]


async def test_a_temporal_that_is_killed_and_comes_back_loses_no_run(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    with a_temporal_server(tmp_path / "temporal.db") as server:
        async with a_fleet(database, database_url, tmp_path, server) as fleet:
            core = await fleet.join(1, per_account=8)
            runs = [await core.start(prompt=each) for each in "ab"]
            await until(lambda: len(fleet.executed) == 1)
            await fleet.until_queued(1)
            with capture_logs() as logs:
                server.kill()
                with pytest.raises(TemporalUnavailable):
                    await core.dispatcher.ping()
                runs.append(await core.start(prompt="c"))
                await until(lambda: "dispatch.paused" in [each["event"] for each in logs])
                # The run of this process ends without Temporal.
                fleet.go_on.set()
                await fleet.until(runs, succeeded=1, queued=2)
                server.start()
                await fleet.until(runs, succeeded=3)
            events = Counter(each["event"] for each in logs)

    assert Counter(fleet.executed) == {"a": 1, "b": 1, "c": 1}
    assert (events["dispatch.paused"], events["dispatch.resumed"]) == (1, 1)


async def test_a_run_whose_submitter_has_died_is_submitted_again_later(
    database: Database, database_url: str, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    async with a_fleet(database, database_url, tmp_path, temporal_server) as fleet:
        fleet.go_on.set()
        api = await fleet.join(0, is_dispatching=False)
        run = await api.start()
        mark = text("UPDATE runs SET submitted_at = now() - CAST(:ago AS interval)")
        async with database.write() as tx:
            await tx.execute(mark, {"ago": SUBMITTED_AGAIN_AFTER / 2})
        await api.dispatcher.claim()
        client = (await temporal_server.connect()).client
        with pytest.raises(RPCError, match="not found"):
            await client.get_workflow_handle(workflow_id_of(run.key)).describe()
        async with database.write() as tx:
            await tx.execute(mark, {"ago": SUBMITTED_AGAIN_AFTER})
        await fleet.join(1)

        await fleet.until([run], succeeded=1)


async def test_what_is_done_to_a_workflow_is_done_to_its_run_and_the_other_way_round(
    database: Database, database_url: str, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    async with a_fleet(database, database_url, tmp_path, temporal_server) as fleet:
        core = await fleet.join(1, per_account=8)
        caller = caller_of(await an_account(database))
        requests = [a_request(prompt=f"secret {each}") for each in "abc"]
        runs = [await core.service.start(caller, request, request_id=None) for request in requests]
        await until(lambda: len(fleet.executed) == 1)
        await fleet.until_queued(2)
        begun = {run.run_id for run in core.starter.attempts()}
        queued, by_api, running = sorted(runs, key=lambda run: run.key.run_id in begun)
        await core.process.commands.stop(by_api.key, "cancel")
        workflows = await workflows_of(temporal_server, [run.key for run in (queued, running, by_api)])
        for run, workflow in zip((queued, running), workflows, strict=False):
            await workflow.cancel()
            await fleet.until([run], cancelled=1)
        async with asyncio.timeout(PATIENCE_S):
            ends = [await ended(workflow) for workflow in workflows]
        histories = [(await workflow.fetch_history()).to_json() for workflow in workflows]

        assert ends == [*[WorkflowExecutionStatus.CANCELED] * 2, WorkflowExecutionStatus.COMPLETED]
        assert len(fleet.executed) == 1
        assert [history for history in histories if "secret" in history] == []
        await until(lambda: core.process.places.taken == 0)


async def workflows_of(server: TemporalServer, runs: Sequence[RunKey]) -> list[Workflow]:
    client = (await server.connect()).client
    return [client.get_workflow_handle(workflow_id_of(run)) for run in runs]


async def ended(workflow: Workflow) -> WorkflowExecutionStatus | None:
    with suppress(WorkflowFailureError):
        await workflow.result()
    return (await workflow.describe()).status
