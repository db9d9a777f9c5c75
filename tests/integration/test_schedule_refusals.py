"""Runs of schedules that are refused, for the moment or for good."""

import asyncio

from app.auth.accounts import Accounts
from app.platform.db import Database
from app.platform.server.memory import MemoryCeiling
from app.schedules.upkeep import ScheduleUpkeep
from tests.factories import not_none
from tests.integration.run_service import a_request
from tests.integration.schedule_server import HOUR, MINUTE, NOON, SECOND, OpenServer, waits_for
from tests.integration.statements import execute


async def test_a_run_that_is_refused_for_the_moment_is_started_later(open_server: OpenServer) -> None:
    go_on = asyncio.Event()
    async with open_server(waits_for(go_on), places=1, queued=0) as server:
        other = await server.core.start()
        schedule = await server.schedule("0 13 * * *")
        await server.at(NOON + HOUR)
        (refused,) = await server.history(schedule)
        await server.at(NOON + HOUR + SECOND)
        (waiting,) = await server.history(schedule)
        go_on.set()
        await server.core.service.wait(other.key)
        await server.ended()
        await server.at(NOON + HOUR + 2 * SECOND)
        await server.ended()

        (started,) = await server.history(schedule)
        assert (refused.outcome, refused.error, refused.attempts) == ("starting", "queue_full", 1)
        assert waiting == refused
        assert (started.outcome, started.error, started.attempts) == ("started", None, 2)
        assert (await server.service.get(server.owner, schedule.schedule_id)).refusals == 0


async def test_pauses_between_attempts_grow_and_end_with_the_time_to_catch_up(
    open_server: OpenServer,
) -> None:
    go_on = asyncio.Event()
    async with open_server(waits_for(go_on), places=1, queued=0) as server:
        other = await server.core.start()
        schedule = await server.schedule("0 13 * * *", catch_up_s=300)
        expected = [0, 2, 6, 14, 30, 62, 122, 182, 242, 302]
        begun: list[int] = []
        for seconds in sorted({max(0, each + near) for each in expected for near in (-1, 0)} | {419}):
            await server.at(NOON + HOUR + seconds * SECOND)
            if (await server.history(schedule))[-1].attempts > len(begun):
                begun.append(seconds)
        (refused,) = await server.history(schedule)
        go_on.set()
        await server.core.service.wait(other.key)

        assert begun == expected
        assert (refused.outcome, refused.error) == ("refused", "queue_full")
        assert len(await server.runs()) == 1


async def test_a_refusal_that_stays_is_recorded_and_twenty_pause_the_schedule(
    open_server: OpenServer,
) -> None:
    async with open_server() as server:
        schedule = await server.schedule()
        await server.core.process.ledger.change_mode(server.owner.account_id, "prepaid")
        for minutes in range(1, 20):
            await server.at(NOON + minutes * MINUTE)
        almost = await server.service.get(server.owner, schedule.schedule_id)
        triggered = await server.service.trigger(server.owner, schedule.schedule_id)
        after_request = await server.service.get(server.owner, schedule.schedule_id)
        await server.at(NOON + 20 * MINUTE)
        paused = await server.service.get(server.owner, schedule.schedule_id)
        await server.at(NOON + 30 * MINUTE)

        due_times = await server.history(schedule)
        assert (almost.refusals, almost.paused) == (19, False)
        assert (triggered.outcome, triggered.error) == ("refused", "insufficient_credits")
        assert after_request == almost
        assert (paused.paused_reason, paused.next_at, paused.paused_at) == (
            "failing",
            None,
            NOON + 20 * MINUTE,
        )
        assert len(due_times) == 21
        assert {(due.outcome, due.error) for due in due_times} == {("refused", "insufficient_credits")}
        assert await server.runs() == []

        resumed = await server.service.resume(server.owner, schedule.schedule_id)
        assert (resumed.refusals, resumed.next_at, resumed.paused) == (0, NOON + 31 * MINUTE, False)


async def test_a_start_resets_the_count_of_refusals(open_server: OpenServer) -> None:
    async with open_server() as server:
        ledger = server.core.process.ledger
        schedule = await server.schedule()
        await ledger.change_mode(server.owner.account_id, "prepaid")
        for minutes in range(1, 6):
            await server.at(NOON + minutes * MINUTE)
        await ledger.grant(server.owner.account_id, 10**9)
        await server.at(NOON + 6 * MINUTE)
        await server.ended()

        assert (await server.outcomes(schedule)) == ["refused"] * 5 + ["started"]
        assert (await server.service.get(server.owner, schedule.schedule_id)).refusals == 0


async def test_a_revoked_key_pauses_its_schedules(open_server: OpenServer, database: Database) -> None:
    async with open_server() as server:
        accounts = Accounts(database)
        minutely = await server.schedule()
        yearly = await server.schedule("0 0 1 1 *")
        await accounts.revoke_key(server.owner.api_key_id)
        await server.at(NOON + MINUTE)
        at_once = await server.service.get(server.owner, minutely.schedule_id)
        await ScheduleUpkeep(database, accounts.find_active_keys).pause_revoked()
        await server.at(NOON + 5 * MINUTE)

        (due,) = await server.history(minutely)
        assert (due.outcome, due.error) == ("refused", "unauthenticated")
        assert at_once.paused_reason == "key_revoked"
        for schedule in (minutely, yearly):
            paused = await server.service.get(server.owner, schedule.schedule_id)
            assert (paused.paused_reason, paused.next_at) == ("key_revoked", None)
        assert await server.runs() == []


async def test_only_schedules_of_revoked_keys_are_paused(open_server: OpenServer, database: Database) -> None:
    async with open_server() as server:
        accounts = Accounts(database)
        schedule = await server.schedule()

        await ScheduleUpkeep(database, accounts.find_active_keys).pause_revoked()

        assert await server.service.get(server.owner, schedule.schedule_id) == schedule


async def test_schedules_of_a_suspended_account_go_on_when_it_is_resumed(
    open_server: OpenServer, database: Database
) -> None:
    async with open_server() as server:
        accounts, account = Accounts(database), server.owner.account_id
        schedule = await server.schedule()
        await accounts.change_account(account, suspended=True)
        for minutes in range(1, 4):
            await server.at(NOON + minutes * MINUTE)
        await ScheduleUpkeep(database, accounts.find_active_keys).pause_revoked()
        suspended = await server.service.get(server.owner, schedule.schedule_id)
        errors = {due.error for due in await server.history(schedule)}
        await accounts.change_account(account, suspended=False)
        await server.at(NOON + 4 * MINUTE)
        await server.ended()

        assert (suspended.paused, suspended.refusals, errors) == (False, 0, {"account_suspended"})
        assert (await server.outcomes(schedule)) == ["refused"] * 3 + ["started"]


async def test_a_key_without_the_scope_starts_nothing(open_server: OpenServer, database: Database) -> None:
    async with open_server() as server:
        schedule = await server.schedule()
        await execute(database, "UPDATE api_keys SET scopes = '{runs:read}'")

        await server.at(NOON + MINUTE)

        (due,) = await server.history(schedule)
        assert (due.outcome, due.error) == ("refused", "forbidden")


async def test_a_large_request_waits_for_memory(open_server: OpenServer) -> None:
    resident, request = 0, a_request(prompt="x" * 300_000)
    memory = MemoryCeiling(10**6, resident_bytes=lambda: resident)
    async with open_server(memory=memory) as server:
        schedule = await server.schedule("0 13 * * *", request=request)
        await server.at(NOON + HOUR)
        (refused,) = await server.history(schedule)
        memory.max_bytes = 10**7
        await server.at(NOON + HOUR + 2 * SECOND)
        await server.ended()

        assert (refused.outcome, refused.error) == ("starting", "overloaded")
        assert await server.outcomes(schedule) == ["started"]


async def test_what_is_tried_again_when_a_schedule_is_paused_is_not_started(open_server: OpenServer) -> None:
    go_on = asyncio.Event()
    async with open_server(waits_for(go_on), places=1, queued=0) as server:
        await server.core.start()
        schedule = await server.schedule()
        await server.at(NOON + MINUTE)
        await server.service.pause(server.owner, schedule.schedule_id)
        go_on.set()
        await server.ended()
        await server.at(NOON + 2 * MINUTE)

        (due,) = await server.history(schedule)
        assert (due.outcome, due.error) == ("refused", "queue_full")


async def test_a_claim_that_has_expired_decides_nothing(open_server: OpenServer) -> None:
    async with open_server() as server:
        ledger = server.core.process.ledger
        schedule = await server.schedule("0 13 * * *")
        server.clock.now = NOON + HOUR
        slow = not_none(await server.firing.take(schedule.id))
        await ledger.change_mode(server.owner.account_id, "prepaid")
        server.clock.go_on(20 * SECOND)
        quick = not_none(await server.firing.take(schedule.id))
        await server.firing.start(slow[0])
        (between,) = await server.history(schedule)
        await ledger.grant(server.owner.account_id, 10**9)
        await server.firing.start(quick[0])
        await server.ended()

        assert (between.outcome, between.error) == ("starting", None)
        assert (await server.outcomes(schedule)) == ["started"]
        assert (await server.service.get(server.owner, schedule.schedule_id)).refusals == 0
