"""What is kept of a run's request, and how long."""

import pytest

from app.events import MeterReport
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from app.runs.conversations.repository import find_turns
from app.runs.records import NewRun
from app.runs.repository import find_run, finish_run, stored_request
from app.usage.records import Meters
from tests.factories import a_final, an_account
from tests.integration.run_process import insert

ABORTED = a_final(error="aborted", finish_reason="aborted")
CALLED = MeterReport(Meters(sdk=1, gateway=1, drift=0), tool_failures=0)
NOT_CALLED = MeterReport(Meters(sdk=0, gateway=0, drift=0), tool_failures=0)


async def a_run(database: Database, *, began: bool, report: MeterReport | None) -> tuple[RunKey, bool]:
    """A run from its row to its end, and whether its request is still there."""
    key = await an_account(database)
    run = RunKey(key.account_id, RunId("run-1"))
    request = '{"graphId": "claude_agents:assistant"}'
    new = NewRun(run, key.id, "claude_agents:assistant", "m", request, "what?", b"hash", None, new_uuid())
    async with database.transaction() as tx:
        await insert(tx, new, starts_at_once=began)
        await finish_run(tx, run, attempt=0, final=ABORTED, report=report, events=[])
    async with database.snapshot() as reader:
        return run, await stored_request(reader, run) is not None


async def test_a_run_cancelled_at_once_leaves_no_request_behind(database: Database) -> None:
    run, kept = await a_run(database, began=False, report=None)

    assert not kept
    async with database.snapshot() as reader:
        record = await find_run(reader, run)
        assert record is not None
        assert record.request_hash == b"hash", "a post repeated joins it all the same"
        (turn,) = await find_turns(reader, run.account_id, [run.run_id])
        assert turn.question == "what?"


@pytest.mark.parametrize(("report", "kept"), [(NOT_CALLED, False), (CALLED, True), (None, True)])
async def test_the_request_of_a_run_that_called_no_model_is_dropped(
    database: Database, report: MeterReport | None, *, kept: bool
) -> None:
    assert (await a_run(database, began=True, report=report))[1] is kept
