"""Runs whose calls wait in no process: how they are answered, expire and go on."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.events import ClientToolCall, MeterReport, RunStarted
from app.executors.client_calls import ClientToolCallAnswered, ClientToolCallNotFound
from app.executors.port import RunContext, RunParked
from app.executors.waiting.port import StoredCall
from app.ids import RunKey
from app.platform.clock.clock import Clock, host_time
from app.platform.db import Database
from app.runs.commands.answered_calls import answered_call
from app.runs.commands.records import SubmitToolResult
from app.runs.dispatch.expiry import CallExpiry
from app.runs.events.codec import encode_events
from app.runs.events.stored import unstored_entries
from app.runs.events.terminal import POSITIONS_PER_ATTEMPT
from app.runs.waits.live import RunWaits
from app.runs.waits.repository import calls_of, park_run
from app.streams.port import LogEntry, WriterFenced
from app.usage.records import Meters
from tests.e2e.stories import until
from tests.factories import an_account
from tests.integration.run_process import ELSEWHERE, Executing, a_run_elsewhere, record_of
from tests.integration.run_service import OpenCore
from tests.integration.statements import execute
from tests.patience import PATIENCE_S


def a_call(call_id: str = "toolu_1", *, left_s: float = 60) -> StoredCall:
    event = ClientToolCall(tool_call_id=call_id, tool_name="pick", args={}, expires_at="soon")
    expires_at = datetime.now(UTC) + timedelta(seconds=left_s)
    return StoredCall(call_id, "client_tool", call_id, event.model_dump(mode="json"), expires_at)


STARTED = RunStarted(run_id="run-1", graph_id="g", model="m", attempt=0)


async def park(
    database: Database,
    run: RunKey,
    *calls: StoredCall,
    attempt: int = 0,
    state: dict[str, Any] | None = None,
    report: MeterReport | None = None,
) -> None:
    waits = RunWaits(database, run, attempt)
    for call in calls:
        await waits.open(call)
    async with database.transaction() as tx:
        assert await park_run(
            tx,
            run,
            attempt=attempt,
            state=state or {"here": attempt},
            calls=[call.call_id for call in calls],
            report=report,
            events=encode_events([LogEntry(attempt * POSITIONS_PER_ATTEMPT + 1, STARTED)]),
        )


def result(call_id: str = "toolu_1", value: str = "blue") -> SubmitToolResult:
    return SubmitToolResult(tool_call_id=call_id, result=value)


async def execute_elsewhere(database: Database, run: RunKey) -> None:
    statement = (
        "UPDATE runs SET status = 'running', held_for = NULL, process_id = :process WHERE run_id = :run"
    )
    await execute(database, statement, process=ELSEWHERE, run=run.run_id)


async def test_the_last_answer_queues_it_and_of_two_different_ones_the_first_counts(
    open_core: OpenCore, database: Database
) -> None:
    key = await an_account(database)
    run = await a_run_elsewhere(database, key)
    async with open_core(is_dispatching=False) as here, open_core(is_dispatching=False) as there:
        await park(database, run, a_call("toolu_1"), a_call("toolu_2"))
        await here.process.commands.submit(run, result("toolu_1"))
        await there.process.commands.submit(run, result("toolu_1"))
        with pytest.raises(ClientToolCallNotFound):
            await here.process.commands.submit(run, result("toolu_3"))
        is_waiting = (await record_of(database, run)).status
        answers = await asyncio.gather(
            here.process.commands.submit(run, result("toolu_2", "blue")),
            there.process.commands.submit(run, result("toolu_2", "red")),
            return_exceptions=True,
        )
        record = await record_of(database, run)

    assert is_waiting == "waiting"
    assert [answer for answer in answers if not isinstance(answer, ClientToolCallAnswered)] == [{}]
    assert (record.status, record.attempt, record.is_parked) == ("queued", 1, True)
    assert 0 <= record.parked_s < PATIENCE_S
    assert [kind.name for kind in answered_call(result())[1]] == ["client_tool"]


async def test_an_attempt_that_has_left_it_changes_nothing_any_more(database: Database) -> None:
    run = await a_run_elsewhere(database, await an_account(database))
    await park(database, run, a_call())
    before = RunWaits(database, run, 0)

    with pytest.raises(WriterFenced):
        await before.open(a_call("toolu_2"))
    with pytest.raises(WriterFenced):
        await before.resolve("toolu_1", "decided", {})
    with pytest.raises(WriterFenced):
        await before.resume()
    async with database.read() as reader:
        assert [(call.call_id, call.resolved_by) for call in await calls_of(reader, run)] == [
            ("toolu_1", None)
        ]
    async with database.read() as reader:
        after = LogEntry(1_000_001, STARTED)
        assert await unstored_entries(reader, run, [LogEntry(1, STARTED), after]) == [after]


async def test_what_was_measured_before_it_was_parked_is_kept_if_it_is_stopped(
    open_core: OpenCore, database: Database
) -> None:
    run = await a_run_elsewhere(database, await an_account(database))
    report = MeterReport(Meters(2, 2, 1), tool_failures=3)
    async with open_core(is_dispatching=False) as core:
        await park(database, run, a_call(), report=report)
        alarms = await core.service.drifted(run.account_id, since=None, until=None, limit=9)
        await core.process.commands.stop(run, "cancel")
        record = await record_of(database, run)
        later = await core.service.drifted(run.account_id, since=None, until=None, limit=9)

    assert (record.status, record.meters, record.tool_failures) == ("cancelled", report.meters, 3)
    # It is an alarm once it has ended.
    assert [alarms.runs, later.runs] == [0, 1]


@pytest.mark.parametrize("has_resumed", [False, True])
async def test_it_begins_again_if_its_process_is_lost_before_it_has_resumed(
    open_core: OpenCore, database: Database, *, has_resumed: bool
) -> None:
    """Its graph has no `retry`, and it has no conversation."""
    run = await a_run_elsewhere(database, await an_account(database))
    async with open_core(is_dispatching=False) as core:
        await park(database, run, a_call())
        await core.process.commands.submit(run, result())
        await execute_elsewhere(database, run)
        if has_resumed:
            await RunWaits(database, run, 1).resume()
        await core.recovery.recover(is_alone=True)
        record = await record_of(database, run)

    assert (record.status, record.is_parked) == (("failed", False) if has_resumed else ("queued", True))


async def test_calls_whose_time_is_up_are_resolved_and_their_runs_queued(
    open_core: OpenCore, database: Database
) -> None:
    run = await a_run_elsewhere(database, await an_account(database))
    async with open_core(is_dispatching=False) as core:
        await park(database, run, a_call("toolu_1", left_s=-1), a_call("toolu_2"))
        await CallExpiry(core.process.queue).sweep()
        before = await record_of(database, run)
        await core.process.commands.submit(run, result("toolu_2"))
        with pytest.raises(ClientToolCallAnswered):
            await core.process.commands.submit(run, result("toolu_1"))
        after = await record_of(database, run)

    assert (before.status, after.status) == ("waiting", "queued")


async def wait_and_park(context: RunContext) -> None:
    """A tool that waits for its client, until its run is parked."""
    control = context.control
    control.can_park = True
    with control.executing("toolu_1"):
        calling = asyncio.create_task(control.client_calls.call("pick", {}, call_id="toolu_1"))
        parking = asyncio.create_task(control.parking.wait())
        await asyncio.wait({calling, parking}, return_when=asyncio.FIRST_COMPLETED)
        calling.cancel()
        await asyncio.wait({calling})
    raise RunParked({})


async def test_a_process_that_stops_parks_the_runs_that_wait(open_core: OpenCore, database: Database) -> None:
    async with open_core(executor=Executing(wait_and_park)) as core:
        run = (await core.start()).key
        live = core.process.supervisor.find(run)
        assert live is not None
        await until(lambda: live.control.may_park)
        async with asyncio.timeout(PATIENCE_S):
            await core.drain.drain(within_s=PATIENCE_S)
        record = await record_of(database, run)

    assert (record.status, record.attempt, record.process_id) == ("waiting", 1, None)


@pytest.mark.parametrize("hours", [-500, 500])
async def test_a_host_with_a_wrong_clock_gives_calls_and_later_attempts_their_time(
    open_core: OpenCore, database: Database, hours: int
) -> None:
    """The clocks of other hosts and the database decide when they are over."""
    left: list[timedelta] = []

    async def do(context: RunContext) -> None:
        left.append(context.plan.timeout)
        if context.plan.attempt == 0:
            await wait_and_park(context)

    clock = Clock(lambda: host_time() + timedelta(hours=hours))
    clock.observe("database", host_time())
    async with open_core(executor=Executing(do), clock=clock) as core:
        run = (await core.start()).key
        live = core.process.supervisor.find(run)
        assert live is not None
        await until(lambda: live.control.may_park)
        live.control.park()
        await live.ended.wait()
        await CallExpiry(core.process.queue).sweep()
        parked = await record_of(database, run)
        async with database.read() as reader:
            (call,) = await calls_of(reader, run)
        await core.process.commands.submit(run, result())
        await until(lambda: len(left) == 2)

    assert parked.status == "waiting"
    assert abs(call.expires_at - parked.created_at) < timedelta(hours=1)
    assert left[1] > timedelta()
