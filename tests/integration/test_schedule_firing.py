"""Each due time of a schedule gets one run, or a reason why it has none."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from app.auth.accounts import Accounts
from app.platform.db import Database
from app.requests.run_request import GraphRunRequest, RunLimits, UploadedFile
from app.schedules.cron import Timing
from app.schedules.firing.agenda import MISSED_AT_ONCE
from app.schedules.firing.repository import HISTORY_ROWS
from app.schedules.records import FiringConfig, run_id_of
from app.schedules.upkeep import ScheduleUpkeep
from tests.factories import an_account, not_none
from tests.integration.run_service import a_request, caller_of
from tests.integration.schedule_server import HOUR, MINUTE, NOON, SECOND, OpenServer, SetClock, due_at
from tests.integration.statements import execute
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage


async def test_a_run_is_started_when_it_is_due_and_not_before(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule("5 12 * * *", request=a_request(prompt="Report!"))

        await server.at(NOON + 5 * MINUTE - timedelta(microseconds=1))
        before = await server.runs()
        await server.at(NOON + 5 * MINUTE)
        await server.pass_once()
        await server.ended()

        (run,), (due,) = await server.runs(), await server.history(schedule)
        changed = await server.service.get(server.owner, schedule.schedule_id)
    assert before == []
    assert (run.key.run_id, run.api_key_id, run.status) == (due.run_id, server.owner.api_key_id, "succeeded")
    assert run.key.run_id == run_id_of(schedule.id, NOON + 5 * MINUTE)
    assert run.request_id == f"schedule:{schedule.schedule_id}"
    assert (due.due_at, due.outcome, due.trigger, due.error) == (NOON + 5 * MINUTE, "started", "cron", None)
    assert due.started_at is not None
    assert schedule.next_at == NOON + 5 * MINUTE
    assert (changed.last_at, changed.next_at) == (schedule.next_at, NOON + 5 * MINUTE + 24 * HOUR)


async def test_the_run_gets_the_request_with_its_files(open_server: OpenServer) -> None:
    seen: list[GraphRunRequest] = []

    def script(request: GraphRunRequest) -> list[WriteMessage]:
        seen.append(request)
        return [WriteMessage("Hi.")]

    async with open_server(script) as server:
        request = a_request(
            prompt="Report!", state_key="daily", tool_ids=[], limits=RunLimits.of(max_turns=3)
        )
        await server.schedule(request=request)
        with_files = request.model_copy(update={"files": (UploadedFile.of(path="a.txt", data="aGk="),)})
        text = await server.core.process.codec.encode_with_files(with_files)

        await server.at(NOON + MINUTE)
        await server.ended()

    assert await server.core.process.codec.decode(text) == with_files
    assert [each.model_copy(update={"run_id": None}) for each in seen] == [request]


async def test_a_time_that_is_too_late_gets_no_run(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule("0 * * * *", catch_up_s=600)

        await server.at(NOON + HOUR + 601 * SECOND)
        late = await server.outcomes(schedule)
        await server.at(NOON + 2 * HOUR + 600 * SECOND)

        assert late == ["missed"]
        assert await server.outcomes(schedule) == ["missed", "started"]


async def test_a_clock_that_jumps_forward_starts_one_run_and_lists_the_latest_missed_times(
    open_server: OpenServer,
) -> None:
    async with open_server() as server:
        schedule = await server.schedule()

        await server.at(NOON + 1000 * 24 * HOUR)
        await server.ended()

        outcomes = await server.outcomes(schedule)
        assert outcomes == ["missed"] * (MISSED_AT_ONCE - 1) + ["started"]
        assert len(await server.runs()) == 1


async def test_a_clock_that_goes_back_starts_nothing_twice_and_the_schedule_goes_on(
    open_server: OpenServer,
) -> None:
    async with open_server() as server:
        schedule = await server.schedule(overlap="allow")
        for minutes in (1, 2, 22):
            await server.at(NOON + minutes * MINUTE)
        started = [due for due in await server.history(schedule) if due.outcome == "started"]

        for seconds in range(60, 60 * 24, 20):
            # Back, and on.
            await server.at(NOON + seconds * SECOND)

        due_times = await server.history(schedule)
        runs = await server.runs()
        await server.ended()
    assert due_at(due_times) == [minutes * MINUTE for minutes in range(1, 24)]
    # Those that were missed when the clock jumped forward are due after all.
    assert {due.outcome for due in due_times} == {"started"}
    assert sorted(run.key.run_id for run in runs) == sorted(due.run_id for due in due_times)
    assert [due for due in due_times if due in started] == started


async def test_a_server_that_accepts_no_runs_leaves_them_to_others(open_server: OpenServer) -> None:
    clock = SetClock()
    async with open_server(clock=clock) as stopping, open_server(clock=clock) as other:
        schedule = await other.schedule()
        await stopping.core.drain.drain(within_s=1)

        await stopping.at(NOON + MINUTE)
        untouched = await other.history(schedule)
        await other.pass_once()
        await other.ended()

        assert untouched == []
        assert await other.outcomes(schedule) == ["started"]


async def test_a_run_that_was_started_counts_although_its_request_was_changed(
    open_server: OpenServer,
) -> None:
    async with open_server() as server:
        schedule = await server.schedule()
        server.clock.now = NOON + MINUTE
        # The process dies when it has started the run.
        claims = not_none(await server.firing.take(schedule.id))
        assert await server.firing._start_run(claims[0])
        await server.ended()
        await server.service.change(
            server.owner, schedule.schedule_id, lambda terms: terms, request=a_request(prompt="else")
        )
        # Both at once: the first has not died after all.
        again = await server.firing._start_run(claims[0])
        await server.at(NOON + MINUTE + 20 * SECOND)

        assert again
        assert (await server.outcomes(schedule)) == ["started"]
        assert len(await server.runs()) == 1


async def test_a_run_that_was_started_counts_although_it_is_too_late_to_start_one(
    open_server: OpenServer,
) -> None:
    async with open_server() as server:
        schedule = await server.schedule("0 13 * * *", catch_up_s=60)
        server.clock.now = NOON + HOUR
        claims = not_none(await server.firing.take(schedule.id))
        await server.firing._start_run(claims[0])
        await server.ended()
        await server.at(NOON + 2 * HOUR)

        assert (await server.outcomes(schedule)) == ["started"]


async def test_a_deleted_schedule_starts_nothing_and_its_runs_stay(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule()
        await server.at(NOON + MINUTE)
        await server.ended()
        server.clock.now = NOON + 2 * MINUTE
        claims = not_none(await server.firing.take(schedule.id))
        await server.service.delete(server.owner, schedule.schedule_id)
        for claimed in claims:
            await server.firing.start(claimed)
        await server.at(NOON + 3 * MINUTE)

        assert len(await server.runs()) == 1
        assert await server.firing.take(schedule.id) is None


async def test_the_history_is_limited(open_server: OpenServer, database: Database) -> None:
    async with open_server() as server:
        schedule = await server.schedule("0 13 1 * *")
        await execute(
            database,
            f"""INSERT INTO schedule_runs
                       (schedule, due_at, trigger, run_id, outcome, next_attempt_at, start_by)
                SELECT '{schedule.id}', timestamptz '{NOON}' - n * interval '1 minute', 'cron', n::text,
                       'skipped', now(), now() FROM generate_series(1, {HISTORY_ROWS + 10}) AS n""",  # noqa: S608 - our own numbers
        )
        await server.at(NOON + HOUR)
        await server.ended()

        due_times = await server.history(schedule)
        assert len(due_times) == HISTORY_ROWS
        assert due_times[-1].outcome == "started"


async def test_old_history_is_deleted(open_server: OpenServer, database: Database) -> None:
    async with open_server() as server:
        schedule = await server.schedule("0 13 1 * *")
        await execute(
            database,
            f"""INSERT INTO schedule_runs
                       (schedule, due_at, trigger, run_id, outcome, next_attempt_at, start_by)
                SELECT '{schedule.id}', now() - n * interval '1 day', 'cron', n::text,
                       CASE WHEN n = 95 THEN 'waiting' ELSE 'skipped' END, now(), now()
                  FROM generate_series(80, 100) AS n""",  # noqa: S608 - our own id
        )
        await ScheduleUpkeep(database, Accounts(database).find_active_keys).delete_old_history()

        assert [due.run_id for due in await server.history(schedule)][::-1] == [
            *(str(n) for n in range(80, 90)),
            "95",
        ]


async def test_a_schedule_ends(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule(overlap="allow", end_at=NOON + 3 * MINUTE)
        for minutes in range(1, 10):
            await server.at(NOON + minutes * MINUTE)

        ended = await server.service.get(server.owner, schedule.schedule_id)
        assert due_at(await server.history(schedule)) == [MINUTE, 2 * MINUTE]
        assert (ended.next_at, ended.paused) == (None, False)


async def test_what_is_due_stays_due_when_the_times_are_changed(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule("0 13 * * *")
        server.clock.now = NOON + HOUR + SECOND
        changed = await server.service.change(
            server.owner, schedule.schedule_id, lambda terms: replace(terms, timing=Timing("30 * * * *"))
        )
        await server.pass_once()
        await server.ended()
        await server.at(NOON + 2 * HOUR)
        await server.ended()

        assert changed.next_at == NOON + HOUR + 30 * MINUTE
        assert due_at(await server.history(schedule)) == [HOUR, HOUR + 30 * MINUTE]
        assert await server.outcomes(schedule) == ["started"] * 2


async def test_the_worker_starts_what_is_due_until_it_is_cancelled(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedules = [await server.schedule() for _ in range(10)]
        working = asyncio.create_task(server.worker.work())
        server.clock.now = NOON + MINUTE
        async with asyncio.timeout(PATIENCE_S):
            while len(await server.runs()) < len(schedules):
                await asyncio.sleep(0.01)
        working.cancel()
        await asyncio.wait({working})
        await server.ended()
        server.clock.now = NOON + 2 * MINUTE
        assert len(await server.runs()) == len(schedules)


async def test_one_account_does_not_use_every_slot(open_server: OpenServer, database: Database) -> None:
    config = FiringConfig(max_concurrent=8, max_per_account=2)
    async with open_server(config=config) as server:
        greedy, other = [caller_of(await an_account(database, name)) for name in ("greedy", "other")]
        for _ in range(20):
            await server.schedule(owner=greedy)
        await server.schedule(owner=other)
        server.clock.now = NOON + MINUTE

        found = await server.worker._find_work()

        assert sorted(due.account_id for due in found) == sorted(
            [greedy.account_id, greedy.account_id, other.account_id]
        )


async def test_while_a_process_starts_a_run_no_other_does(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule("0 13 * * *")
        server.clock.now = NOON + HOUR
        claims = [await server.firing.take(schedule.id) for _ in range(2)]
        server.clock.go_on(20 * SECOND - timedelta(microseconds=1))
        claims.append(await server.firing.take(schedule.id))
        server.clock.go_on(timedelta(microseconds=1))
        claims.append(await server.firing.take(schedule.id))

        assert [None if found is None else len(found) for found in claims] == [1, 0, 0, 1]


async def test_a_claim_expires_also_when_the_clock_goes_back(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule()
        server.clock.now = NOON + HOUR
        # Its process is killed.
        await server.firing.take(schedule.id)
        await server.at(NOON + MINUTE)
        await server.ended()

        assert (await server.outcomes(schedule))[-1] == "started"
