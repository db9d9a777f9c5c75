"""Schedules that Temporal fires: each due time starts one run, and what people do there is respected."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import text
from structlog.testing import capture_logs
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment

from app.platform.db import Database
from app.schedules.cron import Timing
from app.schedules.records import Schedule
from app.schedules.temporal.records import note_of
from app.schedules.temporal.timer import GRACE
from app.schedules.temporal.workflows import FiredSchedule
from tests.contracts.temporal import Temporal, TemporalServer, a_temporal_server
from tests.contracts.temporal_schedules import FiredByTemporal, fired_by_temporal
from tests.factories import an_account
from tests.integration.run_service import a_request, caller_of
from tests.integration.schedule_server import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    SetClock,
    a_schedule,
    this_minute,
    yearly,
)
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.long

DAY = 24 * HOUR
NEVER = "0 0 29 2 *"
"""Not in a test."""


async def test_temporal_shows_each_schedule_as_its_row_is(
    database: Database, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    async with fired_by_temporal(database, tmp_path, Temporal(temporal_server)) as process:
        owner = caller_of(await an_account(database))
        service = process.server.service
        terms: dict[str, Any] = {"time_zone": "Europe/Berlin", "start_at": NOON, "end_at": NOON + 30 * DAY}
        schedule = await a_schedule(
            process.server, owner, "30 7 * * MON-FRI", request=a_request(prompt="secret"), **terms
        )
        created = await process.mirrored(schedule)
        await process.change(owner, schedule, cron="0 12 * * *", end_at=None)
        changed = await process.mirrored(schedule)
        await service.pause(owner, schedule.schedule_id)
        paused = await process.mirrored(schedule)
        await service.resume(owner, schedule.schedule_id)
        resumed = await process.mirrored(schedule)
        await service.delete(owner, schedule.schedule_id)
        with pytest.raises(RPCError, match="not found"):
            await process.mirrored(schedule)

    first = datetime.fromisoformat("2027-03-02T06:30:00Z")
    weekdays = created.schedule.spec.calendars[0].day_of_week
    assert created.info.next_action_times[:4] == [first + days * DAY for days in (0, 1, 2, 3)]
    assert (weekdays[0].start, weekdays[0].end) == (1, 5)
    assert (created.schedule.spec.start_at, created.schedule.spec.time_zone_name) == (NOON, "Europe/Berlin")
    assert created.schedule.spec.end_at == NOON + 30 * DAY - timedelta(microseconds=1)
    assert await created.memo() == {"account": str(owner.account_id), "scheduleId": schedule.schedule_id}
    assert changed.info.next_action_times[0] == datetime.fromisoformat("2027-03-02T11:00:00Z")
    assert changed.schedule.spec.end_at is None
    states = [(each.schedule.state.paused, each.schedule.state.note) for each in (created, paused, resumed)]
    assert states == [(False, note_of(1, None)), (True, note_of(3, "by_request")), (False, note_of(4, None))]
    assert "secret" not in f"{created.raw_description}"


async def test_temporal_knows_the_times_of_every_expression(
    database: Database, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    crons = [
        *("* * * * *", "*/15 8-18/2 * * *", "5,7-9/2,30 * * * *", "55/3 3/5 * * *", "@weekly"),
        *("0 0 13 * FRI", "0 0 1-10 JAN-MAR MON,5", "0 0 */13 * FRI", "0 0 31 * 7", "0 0 29 2 *"),
        *("0 0 * * MON#1", "0 0 * * 0#5,7#2,WED", "0 0 */3 * FRI#2", "0 0 15 * 3#4", "0 12 * * 5-7"),
    ]
    since = datetime.fromisoformat("2027-12-31T23:59:30Z")
    async with fired_by_temporal(database, tmp_path, Temporal(temporal_server)) as process:
        owner = await an_account(database)
        for cron in (*crons, "0 0 L * *"):
            schedule = await a_schedule(process.server, owner, cron)
            await process.mirror.step()
            expected = list(takewhile(lambda time: time < since + 300 * DAY, islice(times(cron, since), 100)))
            # Of times that only the servers know it has none.
            assert await shown_times(process, schedule, since, expected[-1]) == expected * (cron in crons), (
                cron
            )


async def test_each_moment_starts_one_run_in_one_of_two_processes(
    database: Database, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    temporal, minute = Temporal(temporal_server), this_minute()
    clock = SetClock(minute - SECOND)
    async with (
        fired_by_temporal(database, tmp_path / "a", temporal, clock=clock) as process,
        fired_by_temporal(database, tmp_path / "b", temporal, clock=clock) as other,
    ):
        owner = caller_of(await an_account(database))
        request = a_request(prompt="secret")
        schedule = await a_schedule(process.server, owner, yearly(minute), overlap="allow", request=request)
        await asyncio.gather(process.mirror.step(), other.mirror.step())
        clock.now = minute + MINUTE
        await process.fire(schedule, minute)
        await process.until_done(1)
        # As a person does it: there is no such time.
        await process.fire(schedule, minute + 7 * SECOND)
        await process.until_done(2)
        await process.backfill(schedule, minute - 366 * DAY, minute - DAY)
        await process.until_done(3)
        await process.backfill(schedule, minute - 366 * DAY, minute - DAY)
        histories = await process.until_done(4)
        fired = FiredSchedule(str(schedule.id), 1, minute.isoformat(), minute.isoformat())
        again = [each.activities.fire_schedule for each in (process, other) * 2]
        await asyncio.gather(*(ActivityEnvironment().run(each, fired) for each in again))
        await asyncio.gather(process.server.ended(), other.server.ended())
        history = await process.server.history(owner, schedule)
        runs = await process.server.runs(owner)

    assert [(due.trigger, due.outcome) for due in history] == [
        ("request", "started"),
        ("cron", "started"),
        ("request", "started"),
    ]
    assert [each for each in histories if "secret" in each] == []
    assert all(f'"fairnessKey": "{owner.account_id}"' in each for each in histories)
    assert history[0].due_at < minute - 300 * DAY
    assert history[1].due_at == minute
    assert sorted(run.key.run_id for run in runs) == sorted(due.run_id for due in history)


async def test_what_a_person_wants_in_temporal_is_done(
    database: Database, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    """Triggers, backfills, and a pause."""
    async with fired_by_temporal(database, tmp_path, Temporal(temporal_server)) as process:
        server, minute = process.server, this_minute()
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, yearly(minute), overlap="allow", paused=True)
        await process.mirrored(schedule)
        server.clock.now = minute + MINUTE
        await process.fire(schedule, minute - HOUR + SECOND)
        await process.until_done(1)
        server.clock.now = minute - SECOND
        await server.service.resume(owner, schedule.schedule_id)
        await process.mirrored(schedule)
        await process.handle(schedule.id).pause(note="Not today.")
        await process.change(owner, schedule, cron=yearly(minute), time_zone="Etc/UTC")
        paused = await process.mirrored(schedule)
        await process.comparison.compare()
        await server.at(minute + MINUTE)
        await process.fire(schedule, minute + SECOND)
        await process.until_done(2)
        before = await server.outcomes(owner, schedule)
        # Long after it, it can only be a backfill.
        backfilled = FiredSchedule(str(schedule.id), 3, minute.isoformat(), (minute + HOUR).isoformat())
        await ActivityEnvironment().run(process.activities.fire_schedule, backfilled)
        await server.ended()
        after = await server.history(owner, schedule)
        await process.handle(schedule.id).unpause(note="Today.")
        await process.comparison.compare()
        unpaused = await process.mirrored(schedule)

    assert (paused.schedule.state.paused, paused.schedule.state.note) == (True, "Not today.")
    assert paused.schedule.spec.time_zone_name == "Etc/UTC"
    assert before == ["started", "missed", "started"]
    assert [(due.outcome, due.trigger) for due in after] == [("started", "request")] * 3
    assert (unpaused.schedule.state.paused, unpaused.schedule.state.note) == (False, note_of(3, None))


async def test_what_temporal_does_not_notice_the_servers_do(
    database: Database, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    async with fired_by_temporal(database, tmp_path, Temporal(temporal_server)) as process:
        server, minute = process.server, this_minute()
        owner = caller_of(await an_account(database))
        cases = ("late", "paused there", "deleted there")
        late, paused, deleted = [
            await a_schedule(server, owner, yearly(minute), schedule_id=each) for each in cases
        ]
        await process.mirrored(late)
        await process.handle(paused.id).pause()
        await process.handle(deleted.id).delete()
        await server.at(minute + GRACE - SECOND)
        early = [await server.outcomes(owner, each) for each in (late, paused, deleted)]
        await server.at(minute + GRACE)
        outcomes = [await server.outcomes(owner, each) for each in (late, paused, deleted)]
        await process.mirrored(deleted)
        await server.ended()

    assert early == [[], [], []]
    assert outcomes == [["started"], ["missed"], ["started"]]


async def test_temporal_is_compared_with_the_rows(
    database: Database, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    clock = SetClock(this_minute() + MINUTE)
    async with fired_by_temporal(database, tmp_path, Temporal(temporal_server), clock=clock) as process:
        service, owner = process.server.service, caller_of(await an_account(database))
        deleted, unpaused, orphan, fired = [
            await a_schedule(process.server, owner, NEVER, paused=paused)
            for paused in (False, True, False, False)
        ]
        await process.mirrored(fired)
        await process.handle(deleted.id).delete()
        await process.handle(unpaused.id).unpause()
        async with database.transaction() as tx:
            # As a server of an earlier release deletes it.
            await tx.execute(
                text("DELETE FROM schedules WHERE id = ANY (:ids)"), {"ids": [orphan.id, fired.id]}
            )
        # Without waiting for the comparison.
        await process.handle(fired.id).trigger()
        await process.until_done(1)
        # The fired one has found no row and deleted itself.
        await process.until_listed(unpaused, orphan)
        await process.comparison.step()
        await process.mirror.step()
        states = [(await process.handle(each.id).describe()).schedule.state for each in (deleted, unpaused)]
        with pytest.raises(RPCError, match="not found"):
            await process.handle(orphan.id).describe()
        await service.delete(owner, deleted.schedule_id)
        await process.mirror.step()

        assert [state.paused for state in states] == [False, True]
        await process.until_listed(unpaused)


async def test_an_earlier_revision_replaces_no_later_one(
    database: Database, tmp_path: Path, temporal_server: TemporalServer
) -> None:
    async with fired_by_temporal(database, tmp_path, Temporal(temporal_server)) as process:
        owner = caller_of(await an_account(database))
        versions = [await a_schedule(process.server, owner, NEVER)]
        versions += [
            await process.change(owner, versions[0], cron=f"0 {hour} 29 2 *") for hour in range(1, 9)
        ]
        await process.schedules.put(versions[0])
        # Each finds the first one, and the last one writes first.
        await asyncio.gather(*(process.schedules.put(each) for each in versions[::-1]))
        await process.schedules.put(versions[0])
        there = await process.handle(versions[0].id).describe()
        newest = await process.change(owner, versions[0], cron="0 9 29 2 *")
        await process.schedules.put(newest)
        # A process that has stood still since it has read the last but one.
        await process.schedules._replace(
            versions[-1], there.schedule.state, there.raw_description.conflict_token
        )
        last = await process.handle(versions[0].id).describe()

    assert last.schedule.spec.calendars[0].hour[0].start == 9
    assert [each.revision for each in versions] == [*range(1, 10)]
    assert there.schedule.spec.calendars[0].hour[0].start == 8
    assert there.schedule.state.note == note_of(9, None)


async def test_a_temporal_that_is_killed_and_comes_back_gets_what_has_changed(
    database: Database, tmp_path: Path
) -> None:
    with a_temporal_server(tmp_path / "temporal.db") as temporal:
        async with fired_by_temporal(database, tmp_path, Temporal(temporal)) as process:
            server, minute = process.server, this_minute()
            owner = caller_of(await an_account(database))
            old = await a_schedule(server, owner, yearly(minute), overlap="allow")
            gone = await a_schedule(server, owner, NEVER)
            await process.mirrored(old)
            temporal.kill()
            with capture_logs() as logs:
                new = await a_schedule(server, owner, yearly(minute), overlap="allow")
                await server.service.delete(owner, gone.schedule_id)
                for _ in range(3):
                    await process.mirror.step()
                await server.at(minute + GRACE)
                away = [await server.history(owner, each) for each in (old, new)]
                temporal.start()
                await temporal.connect()
                async with asyncio.timeout(PATIENCE_S):
                    while (await process.schedules.list_all()).keys() != {old.id, new.id}:
                        await process.mirror.step()
            await process.fire(old, minute)
            await process.until_done(1)
            await server.pass_once()
            await server.ended()
            outcomes = [await server.outcomes(owner, each) for each in (old, new)]
            runs = await server.runs(owner)

    assert away == [[], []]
    assert outcomes == [["started"]] * 2
    assert len(runs) == 2
    events = Counter(each["event"] for each in logs)
    assert (events["dispatch.paused"], events["dispatch.resumed"]) == (1, 1)


@pytest.mark.parametrize("behind", [timedelta(milliseconds=200), HOUR])
async def test_a_moment_waits_for_the_clock_of_the_database_and_for_another_process(
    database: Database, tmp_path: Path, temporal_server: TemporalServer, behind: timedelta
) -> None:
    async with fired_by_temporal(database, tmp_path, Temporal(temporal_server)) as process:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(process.server, owner)
        moment = process.server.clock.now + behind
        fired = FiredSchedule(str(schedule.id), 1, moment.isoformat(), moment.isoformat())
        with pytest.raises(ApplicationError, match="clock") as again:
            await ActivityEnvironment().run(process.activities.fire_schedule, fired)
        await process.server.core.service.drain(within_s=0)
        with pytest.raises(ApplicationError, match="accepts no runs"):
            await ActivityEnvironment().run(process.activities.fire_schedule, fired)

    assert again.value.next_retry_delay == min(behind, 10 * SECOND)


async def shown_times(
    process: FiredByTemporal, schedule: Schedule, since: datetime, until: datetime
) -> list[datetime]:
    """What Temporal computes."""
    client, start, end = process.schedules.temporal.client, Timestamp(), Timestamp()
    start.FromDatetime(since)
    end.FromDatetime(until)
    request = ListScheduleMatchingTimesRequest(
        namespace=client.namespace,
        schedule_id=process.schedules.id_of(schedule.id),
        start_time=start,
        end_time=end,
    )
    found = await client.workflow_service.list_schedule_matching_times(request)
    return [each.ToDatetime(tzinfo=UTC) for each in found.start_time]


def times(cron: str, since: datetime) -> Iterator[datetime]:
    while (found := Timing(cron).next_after(since)) is not None:
        yield (since := found)
