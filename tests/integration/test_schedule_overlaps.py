"""What happens to a due time while an earlier run of its schedule has not ended."""

import asyncio
from datetime import timedelta

import pytest

from app.ids import RunKey
from app.platform.db import Database
from tests.integration.schedule_server import HOUR, MINUTE, NOON, SECOND, OpenServer, SetClock, waits_for
from tests.integration.statements import execute
from tests.patience import PATIENCE_S


async def test_while_its_run_has_not_ended_no_other_is_started(open_server: OpenServer) -> None:
    go_on = asyncio.Event()
    async with open_server(waits_for(go_on)) as server:
        schedule = await server.schedule(overlap="skip")
        for minutes in (1, 2, 3):
            await server.at(NOON + minutes * MINUTE)
        skipped = await server.outcomes(schedule)
        go_on.set()
        await server.ended()
        await server.at(NOON + 4 * MINUTE)
        await server.ended()

        assert skipped == ["started", "skipped", "skipped"]
        assert await server.outcomes(schedule) == [*skipped, "started"]


async def test_one_run_waits_for_the_end_of_the_other(open_server: OpenServer) -> None:
    go_on = asyncio.Event()
    async with open_server(waits_for(go_on)) as server:
        schedule = await server.schedule(overlap="queue", catch_up_s=60)
        for minutes in (1, 2, 3):
            await server.at(NOON + minutes * MINUTE)
        queued = await server.outcomes(schedule)
        # However long it takes.
        await server.at(NOON + 3 * MINUTE + 59 * SECOND)
        go_on.set()
        await server.ended()
        await server.pass_once()
        await server.ended()

        assert queued == ["started", "waiting", "skipped"]
        assert await server.outcomes(schedule) == ["started", "started", "skipped"]
        assert len(await server.runs()) == 2


async def test_the_earlier_run_is_cancelled(open_server: OpenServer) -> None:
    async with open_server(waits_for(asyncio.Event())) as server:
        schedule = await server.schedule(overlap="cancel")
        for minutes in (1, 2, 3):
            await server.at(NOON + minutes * MINUTE)
        async with asyncio.timeout(PATIENCE_S):
            first, second, _third = [run.key for run in await server.runs()]
            finals = [await server.core.service.wait(key) for key in (first, second)]
        running = [run.finished for run in await server.runs()]
        await server.core.process.commands.stop((await server.runs())[2].key, "cancel")
        await server.ended()

        assert [final.error for final in finals] == ["aborted", "aborted"]
        assert running == [True, True, False]
        assert await server.outcomes(schedule) == ["started"] * 3


@pytest.mark.parametrize("is_finished", [False, True])
async def test_a_run_outside_the_schedule_is_no_obstacle(
    open_server: OpenServer, *, is_finished: bool
) -> None:
    go_on = asyncio.Event()
    if is_finished:
        go_on.set()
    async with open_server(waits_for(go_on)) as server:
        await server.core.start()
        schedule = await server.schedule()
        await server.at(NOON + MINUTE)
        go_on.set()
        await server.ended()

        (due,) = await server.history(schedule)
        assert due.outcome == "started"
        run = await server.core.service.get(RunKey(server.owner.account_id, due.run_id))
        assert run.finished


async def test_what_waits_when_a_schedule_is_paused_is_not_started(open_server: OpenServer) -> None:
    go_on = asyncio.Event()
    async with open_server(waits_for(go_on)) as server:
        schedule = await server.schedule(overlap="queue")
        for minutes in (1, 2):
            await server.at(NOON + minutes * MINUTE)
        await server.service.pause(server.owner, schedule.schedule_id)
        await server.service.resume(server.owner, schedule.schedule_id)
        go_on.set()
        await server.ended()
        await server.pass_once()

        assert await server.outcomes(schedule) == ["started", "missed"]


async def test_each_request_for_a_run_has_a_due_time_of_its_own(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule(overlap="allow")
        await server.at(NOON + MINUTE)

        triggered = [await server.service.trigger(server.owner, schedule.schedule_id) for _ in range(2)]
        await server.ended()

        assert len(await server.runs()) == 3
        assert [due.due_at - NOON - MINUTE for due in triggered] == [
            timedelta(microseconds=1),
            timedelta(microseconds=2),
        ]


async def test_a_request_that_is_repeated_with_its_key_has_one_run(open_server: OpenServer) -> None:
    async with open_server() as server:
        first, second = [await server.schedule(overlap="allow") for _ in range(2)]
        triggered = []
        for minute, (schedule, key) in enumerate([(first, "k"), (first, "k"), (first, "l"), (second, "k")]):
            await server.at(NOON + minute * timedelta(seconds=1))
            triggered.append(await server.service.trigger(server.owner, schedule.schedule_id, key))
        await server.ended()

        assert triggered[0] == triggered[1]
        assert len({due.run_id for due in triggered}) == len(await server.runs()) == 3
        assert {due.outcome for due in triggered} == {"started"}


async def test_while_a_request_starts_a_run_its_schedule_may_be_paused(open_server: OpenServer) -> None:
    async with open_server() as server:
        schedule = await server.schedule(paused=True)
        await server.at(NOON + 5 * MINUTE)

        triggered = await server.service.trigger(server.owner, schedule.schedule_id)
        await server.ended()

        assert (triggered.outcome, triggered.trigger) == ("started", "request")
        assert triggered.due_at == NOON + 5 * MINUTE
        assert (await server.service.get(server.owner, schedule.schedule_id)).paused_reason == "by_request"


REFUSE_CANCELS = (
    """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'refused';
    END
    $$
    """,
    "CREATE TRIGGER refuse BEFORE UPDATE OF interruption ON runs FOR EACH ROW EXECUTE FUNCTION refuse()",
)


async def test_a_run_counts_although_the_earlier_one_could_not_be_cancelled(
    open_server: OpenServer, database: Database
) -> None:
    go_on, clock = asyncio.Event(), SetClock()
    async with open_server(waits_for(go_on), clock=clock) as first, open_server(clock=clock) as second:
        schedule = await first.schedule(overlap="cancel")
        await first.at(NOON + MINUTE)
        for statement in REFUSE_CANCELS:
            await execute(database, statement)
        await second.at(NOON + 2 * MINUTE)
        go_on.set()
        await first.ended()
        await second.ended()

        due_times = await first.history(schedule)
        assert [(due.outcome, due.error) for due in due_times] == [("started", None)] * 2
        assert len(await first.runs()) == 2


async def test_a_time_that_is_too_late_waits_for_no_run(open_server: OpenServer) -> None:
    go_on = asyncio.Event()
    async with open_server(waits_for(go_on)) as server:
        schedule = await server.schedule("0 * * * *", overlap="queue", catch_up_s=600)
        await server.at(NOON + HOUR)
        await server.at(NOON + 2 * HOUR + 11 * MINUTE)
        go_on.set()
        await server.ended()
        await server.pass_once()

        assert await server.outcomes(schedule) == ["started", "missed"]


async def test_the_newest_due_time_waits_until_the_earlier_run_can_be_cancelled(
    open_server: OpenServer,
) -> None:
    go_on = asyncio.Event()
    async with open_server(waits_for(go_on), places=1, queued=0) as server:
        await server.core.start()
        schedule = await server.schedule(overlap="cancel")
        # The first is tried again and again.
        for minutes in (1, 2, 3):
            await server.at(NOON + minutes * MINUTE)
        waiting = await server.outcomes(schedule)
        go_on.set()
        await server.ended()
        for seconds in range(40, 60):
            await server.at(NOON + 3 * MINUTE + seconds * SECOND)
            await server.ended()

        assert waiting == ["starting", "skipped", "waiting"]
        assert await server.outcomes(schedule) == ["started", "skipped", "started"]
