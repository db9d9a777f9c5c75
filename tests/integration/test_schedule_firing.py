"""Each due time of a schedule gets one run, or a reason why it has none."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from app.auth.accounts import Accounts
from app.billing.credit.ledger import AccountTerms
from app.db import Database
from app.executors.scripted import WaitFor, WriteMessage
from app.ids import RunKey, new_uuid
from app.requests import GraphRunRequest, RunLimits, UploadedFile
from app.runs.dispatcher import Capacity
from app.schedules.cron import Timing
from app.schedules.firing.agenda import MISSED_AT_ONCE
from app.schedules.firing.repository import HISTORY_ROWS
from app.schedules.records import FiringConfig, run_id_of
from app.schedules.upkeep import ScheduleUpkeep
from app.server.memory import MemoryCeiling
from tests.factories import an_account
from tests.integration.run_service import a_request, caller_of
from tests.integration.schedule_server import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    SetClock,
    a_schedule,
    a_schedule_server,
    due_at,
    execute,
)


def until(go_on: asyncio.Event) -> list[WaitFor | WriteMessage]:
    """The script of a run that waits."""
    return [WaitFor(go_on), WriteMessage("Done.")]


async def test_a_run_is_started_when_it_is_due_and_not_before(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "5 12 * * *", request=a_request(prompt="Report!"))

        await server.at(NOON + 5 * MINUTE - timedelta(microseconds=1))
        before = await server.runs(owner)
        await server.at(NOON + 5 * MINUTE)
        await server.pass_once()
        await server.ended()

        (run,), (due,) = await server.runs(owner), await server.history(owner, schedule)
        changed = await server.service.get(owner, schedule.schedule_id)
    assert before == []
    assert (run.key.run_id, run.api_key_id, run.status) == (due.run_id, owner.api_key_id, "succeeded")
    assert run.key.run_id == run_id_of(schedule.id, NOON + 5 * MINUTE)
    assert run.request_id == f"schedule:{schedule.id}"
    assert (due.due_at, due.outcome, due.trigger, due.error) == (NOON + 5 * MINUTE, "started", "cron", None)
    assert due.started_at is not None
    assert schedule.next_at == NOON + 5 * MINUTE
    assert (changed.last_at, changed.next_at) == (schedule.next_at, NOON + 5 * MINUTE + 24 * HOUR)


async def test_the_run_gets_the_request_with_its_files(database: Database, tmp_path: Path) -> None:
    seen: list[GraphRunRequest] = []

    def script(request: GraphRunRequest) -> list[WriteMessage]:
        seen.append(request)
        return [WriteMessage("Hi.")]

    async with a_schedule_server(database, tmp_path, script) as server:
        owner = caller_of(await an_account(database))
        request = a_request(
            prompt="Report!", state_key="daily", tool_ids=[], limits=RunLimits.of(max_turns=3)
        )
        schedule = await a_schedule(server, owner, request=request)
        stored = await server.firing._read_request(schedule)
        with_files = request.model_copy(update={"files": (UploadedFile.of(path="a.txt", data="aGk="),)})
        text = await server.core.process.codec.encode_with_files(with_files)

        await server.at(NOON + MINUTE)
        await server.ended()

    assert stored == request
    assert await server.core.process.codec.decode(text) == with_files
    assert [each.model_copy(update={"run_id": None}) for each in seen] == [request]


async def test_of_an_outage_only_the_latest_time_is_started(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "*/10 * * * *")

        await server.at(NOON + 42 * MINUTE)
        await server.ended()

        due_times = await server.history(owner, schedule)
        assert due_at(due_times) == [10 * MINUTE, 20 * MINUTE, 30 * MINUTE, 40 * MINUTE]
        assert [due.outcome for due in due_times] == ["missed", "missed", "missed", "started"]
        assert len(await server.runs(owner)) == 1


async def test_a_time_that_is_too_late_gets_no_run(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "0 * * * *", catch_up_s=600)

        await server.at(NOON + HOUR + 601 * SECOND)
        late = await server.outcomes(owner, schedule)
        await server.at(NOON + 2 * HOUR + 600 * SECOND)

        assert late == ["missed"]
        assert await server.outcomes(owner, schedule) == ["missed", "started"]


async def test_a_clock_that_jumps_forward_starts_one_run_and_lists_the_latest_missed_times(
    database: Database, tmp_path: Path
) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner)

        await server.at(NOON + 1000 * 24 * HOUR)
        await server.ended()

        outcomes = await server.outcomes(owner, schedule)
        assert outcomes == ["missed"] * (MISSED_AT_ONCE - 1) + ["started"]
        assert len(await server.runs(owner)) == 1


async def test_a_clock_that_goes_back_starts_nothing_twice_and_the_schedule_goes_on(
    database: Database, tmp_path: Path
) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, overlap="allow")
        for minutes in (1, 2, 62):
            await server.at(NOON + minutes * MINUTE)

        for seconds in range(60, 60 * 64, 20):
            # An hour back, and on.
            await server.at(NOON + seconds * SECOND)

        due_times = await server.history(owner, schedule)
        runs = await server.runs(owner)
        await server.ended()
    assert due_at(due_times) == [minutes * MINUTE for minutes in range(1, 64)]
    # Those that were missed when the clock jumped forward are due after all.
    assert {due.outcome for due in due_times} == {"started"}
    assert sorted(run.key.run_id for run in runs) == sorted(due.run_id for due in due_times)


async def test_firing_a_due_time_again_has_no_further_effect(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "0 0 1 1 *")

        fired = [await server.firing.fire(schedule.id, NOON) for _ in range(3)]
        await server.ended()

        assert {due.outcome for due in fired if due} == {"started"}
        assert len(await server.runs(owner)) == 1
        assert await server.firing.fire(new_uuid(), NOON) is None


async def test_while_its_run_has_not_ended_no_other_is_started(database: Database, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with a_schedule_server(database, tmp_path, lambda _: until(go_on)) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, overlap="skip")
        for minutes in (1, 2, 3):
            await server.at(NOON + minutes * MINUTE)
        skipped = await server.outcomes(owner, schedule)
        go_on.set()
        await server.ended()
        await server.at(NOON + 4 * MINUTE)
        await server.ended()

        assert skipped == ["started", "skipped", "skipped"]
        assert await server.outcomes(owner, schedule) == [*skipped, "started"]


async def test_one_run_waits_for_the_end_of_the_other(database: Database, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with a_schedule_server(database, tmp_path, lambda _: until(go_on)) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, overlap="queue", catch_up_s=60)
        for minutes in (1, 2, 3):
            await server.at(NOON + minutes * MINUTE)
        queued = await server.outcomes(owner, schedule)
        # However long it takes.
        await server.at(NOON + 3 * MINUTE + 59 * SECOND)
        go_on.set()
        await server.ended()
        await server.pass_once()
        await server.ended()

        assert queued == ["started", "waiting", "skipped"]
        assert await server.outcomes(owner, schedule) == ["started", "started", "skipped"]
        assert len(await server.runs(owner)) == 2


async def test_the_earlier_run_is_cancelled(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path, lambda _: until(asyncio.Event())) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, overlap="cancel")
        for minutes in (1, 2, 3):
            await server.at(NOON + minutes * MINUTE)
        async with asyncio.timeout(20):
            first, second, _third = [run.key for run in await server.runs(owner)]
            finals = [await server.core.service.wait(key) for key in (first, second)]
        running = [run.finished for run in await server.runs(owner)]
        await server.core.process.commands.stop((await server.runs(owner))[2].key, "cancel")
        await server.ended()

        assert [final.error for final in finals] == ["aborted", "aborted"]
        assert running == [True, True, False]
        assert await server.outcomes(owner, schedule) == ["started"] * 3


async def test_runs_may_overlap(database: Database, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with a_schedule_server(database, tmp_path, lambda _: until(go_on)) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, overlap="allow")
        for minutes in (1, 2, 3):
            await server.at(NOON + minutes * MINUTE)
        unfinished = [run.finished for run in await server.runs(owner)]
        go_on.set()
        await server.ended()

        assert unfinished == [False] * 3
        assert await server.outcomes(owner, schedule) == ["started"] * 3


async def test_a_run_that_is_refused_for_the_moment_is_started_later(
    database: Database, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    full = Capacity.of(1, 0)
    async with a_schedule_server(database, tmp_path, lambda _: until(go_on), capacity=full) as server:
        owner = caller_of(await an_account(database))
        other = await server.core.service.start(owner, a_request(), request_id=None)
        schedule = await a_schedule(server, owner, "0 13 * * *")
        await server.at(NOON + HOUR)
        (refused,) = await server.history(owner, schedule)
        await server.at(NOON + HOUR + SECOND)
        (waiting,) = await server.history(owner, schedule)
        go_on.set()
        await server.core.service.wait(other.key)
        await server.ended()
        await server.at(NOON + HOUR + 2 * SECOND)
        await server.ended()

        (started,) = await server.history(owner, schedule)
        assert (refused.outcome, refused.error, refused.attempts) == ("starting", "queue_full", 1)
        assert waiting == refused
        assert (started.outcome, started.error, started.attempts) == ("started", None, 2)
        assert (await server.service.get(owner, schedule.schedule_id)).refusals == 0


async def test_pauses_between_attempts_grow_and_end_with_the_time_to_catch_up(
    database: Database, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    full = Capacity.of(1, 0)
    async with a_schedule_server(database, tmp_path, lambda _: until(go_on), capacity=full) as server:
        owner = caller_of(await an_account(database))
        other = await server.core.service.start(owner, a_request(), request_id=None)
        schedule = await a_schedule(server, owner, "0 13 * * *", catch_up_s=300)
        attempts: list[int] = []
        for seconds in range(420):
            await server.at(NOON + HOUR + seconds * SECOND)
            attempts += [due.attempts for due in await server.history(owner, schedule)][-1:]
        (refused,) = await server.history(owner, schedule)
        go_on.set()
        await server.core.service.wait(other.key)

        begun = [attempts.index(number) for number in range(1, max(attempts) + 1)]
        assert begun == [0, 2, 6, 14, 30, 62, 122, 182, 242, 302]
        assert (refused.outcome, refused.error) == ("refused", "queue_full")
        assert len(await server.runs(owner)) == 1


async def test_a_refusal_that_stays_is_recorded_and_twenty_pause_the_schedule(
    database: Database, tmp_path: Path
) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        key = await an_account(database)
        owner = caller_of(key)
        schedule = await a_schedule(server, owner)
        await server.core.process.ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
        for minutes in range(1, 20):
            await server.at(NOON + minutes * MINUTE)
        almost = await server.service.get(owner, schedule.schedule_id)
        triggered = await server.service.trigger(owner, schedule.schedule_id)
        after_request = await server.service.get(owner, schedule.schedule_id)
        await server.at(NOON + 20 * MINUTE)
        paused = await server.service.get(owner, schedule.schedule_id)
        await server.at(NOON + 30 * MINUTE)

        due_times = await server.history(owner, schedule)
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
        assert await server.runs(owner) == []

        resumed = await server.service.resume(owner, schedule.schedule_id)
        assert (resumed.refusals, resumed.next_at, resumed.paused) == (0, NOON + 31 * MINUTE, False)


async def test_a_start_resets_the_count_of_refusals(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        key = await an_account(database)
        owner, ledger = caller_of(key), server.core.process.ledger
        schedule = await a_schedule(server, owner)
        await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
        for minutes in range(1, 6):
            await server.at(NOON + minutes * MINUTE)
        await ledger.grant(key.account_id, 10**9)
        await server.at(NOON + 6 * MINUTE)
        await server.ended()

        assert (await server.outcomes(owner, schedule)) == ["refused"] * 5 + ["started"]
        assert (await server.service.get(owner, schedule.schedule_id)).refusals == 0


async def test_a_revoked_key_pauses_its_schedules(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        key = await an_account(database)
        owner, accounts = caller_of(key), Accounts(database)
        minutely = await a_schedule(server, owner)
        yearly = await a_schedule(server, owner, "0 0 1 1 *")
        await accounts.revoke_key(key.id)
        await server.at(NOON + MINUTE)
        await ScheduleUpkeep(database, accounts.find_active_keys).pause_revoked()
        await server.at(NOON + 5 * MINUTE)

        (due,) = await server.history(owner, minutely)
        assert (due.outcome, due.error) == ("refused", "unauthenticated")
        for schedule in (minutely, yearly):
            paused = await server.service.get(owner, schedule.schedule_id)
            assert (paused.paused_reason, paused.next_at) == ("key_revoked", None)
        assert await server.runs(owner) == []


async def test_only_schedules_of_revoked_keys_are_paused(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        key = await an_account(database)
        owner, accounts = caller_of(key), Accounts(database)
        schedule = await a_schedule(server, owner)

        await ScheduleUpkeep(database, accounts.find_active_keys).pause_revoked()

        assert await server.service.get(owner, schedule.schedule_id) == schedule


async def test_a_key_without_the_scope_starts_nothing(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner)
        await execute(database, "UPDATE api_keys SET scopes = '{runs:read}'")

        await server.at(NOON + MINUTE)

        (due,) = await server.history(owner, schedule)
        assert (due.outcome, due.error) == ("refused", "forbidden")


async def test_a_large_request_waits_for_memory(database: Database, tmp_path: Path) -> None:
    resident, request = 0, a_request(prompt="x" * 300_000)
    memory = MemoryCeiling(10**6, resident_bytes=lambda: resident)
    async with a_schedule_server(database, tmp_path, memory=memory) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "0 13 * * *", request=request)
        await server.at(NOON + HOUR)
        (refused,) = await server.history(owner, schedule)
        memory.max_bytes = 10**7
        await server.at(NOON + HOUR + 2 * SECOND)
        await server.ended()

        assert (refused.outcome, refused.error) == ("starting", "overloaded")
        assert await server.outcomes(owner, schedule) == ["started"]


async def test_a_server_that_accepts_no_runs_leaves_them_to_others(
    database: Database, tmp_path: Path
) -> None:
    clock = SetClock()
    async with (
        a_schedule_server(database, tmp_path / "a", clock=clock) as stopping,
        a_schedule_server(database, tmp_path / "b", clock=clock) as other,
    ):
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(other, owner)
        await stopping.core.service.drain(within_s=1)

        await stopping.at(NOON + MINUTE)
        untouched = await other.history(owner, schedule)
        await other.pass_once()
        await other.ended()

        assert untouched == []
        assert await other.outcomes(owner, schedule) == ["started"]


async def test_while_a_request_starts_a_run_its_schedule_may_be_paused(
    database: Database, tmp_path: Path
) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, paused=True)
        await server.at(NOON + 5 * MINUTE)

        triggered = await server.service.trigger(owner, schedule.schedule_id)
        await server.ended()

        assert (triggered.outcome, triggered.trigger) == ("started", "request")
        assert triggered.due_at == NOON + 5 * MINUTE
        assert (await server.service.get(owner, schedule.schedule_id)).paused_reason == "by_request"


async def test_what_waits_when_a_schedule_is_paused_is_not_started(
    database: Database, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    async with a_schedule_server(database, tmp_path, lambda _: until(go_on)) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, overlap="queue")
        for minutes in (1, 2):
            await server.at(NOON + minutes * MINUTE)
        await server.service.pause(owner, schedule.schedule_id)
        go_on.set()
        await server.ended()
        await server.at(NOON + 10 * MINUTE)

        assert await server.outcomes(owner, schedule) == ["started", "missed"]


async def test_what_is_tried_again_when_a_schedule_is_paused_is_not_started(
    database: Database, tmp_path: Path
) -> None:
    go_on, full = asyncio.Event(), Capacity.of(1, 0)
    async with a_schedule_server(database, tmp_path, lambda _: until(go_on), capacity=full) as server:
        owner = caller_of(await an_account(database))
        await server.core.service.start(owner, a_request(), request_id=None)
        schedule = await a_schedule(server, owner)
        await server.at(NOON + MINUTE)
        await server.service.pause(owner, schedule.schedule_id)
        go_on.set()
        await server.ended()
        await server.at(NOON + 2 * MINUTE)

        (due,) = await server.history(owner, schedule)
        assert (due.outcome, due.error) == ("refused", "queue_full")


async def test_a_run_that_was_started_counts_although_its_request_was_changed(
    database: Database, tmp_path: Path
) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner)
        server.clock.now = NOON + MINUTE
        # The process dies when it has started the run.
        claims = await server.firing.take(schedule.id)
        assert claims is not None
        assert await server.firing._start_run(claims[0])
        await server.ended()
        await server.service.change(
            owner, schedule.schedule_id, lambda terms: terms, request=a_request(prompt="else")
        )
        # Both at once: the first has not died after all.
        again = await server.firing._start_run(claims[0])
        await server.at(NOON + MINUTE + 20 * SECOND)

        assert again
        assert (await server.outcomes(owner, schedule)) == ["started"]
        assert len(await server.runs(owner)) == 1


async def test_a_run_that_was_started_counts_although_it_is_too_late_to_start_one(
    database: Database, tmp_path: Path
) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "0 13 * * *", catch_up_s=60)
        server.clock.now = NOON + HOUR
        claims = await server.firing.take(schedule.id)
        assert claims is not None
        await server.firing._start_run(claims[0])
        await server.ended()
        await server.at(NOON + 2 * HOUR)

        assert (await server.outcomes(owner, schedule)) == ["started"]


async def test_a_claim_that_has_expired_decides_nothing(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        key = await an_account(database)
        owner, ledger = caller_of(key), server.core.process.ledger
        schedule = await a_schedule(server, owner, "0 13 * * *")
        server.clock.now = NOON + HOUR
        slow = await server.firing.take(schedule.id)
        assert slow is not None
        await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
        server.clock.go_on(20 * SECOND)
        quick = await server.firing.take(schedule.id)
        assert quick is not None
        await server.firing.start(slow[0])
        (between,) = await server.history(owner, schedule)
        await ledger.grant(key.account_id, 10**9)
        await server.firing.start(quick[0])
        await server.ended()

        assert (between.outcome, between.error) == ("starting", None)
        assert (await server.outcomes(owner, schedule)) == ["started"]
        assert (await server.service.get(owner, schedule.schedule_id)).refusals == 0


async def test_a_deleted_schedule_starts_nothing_and_its_runs_stay(
    database: Database, tmp_path: Path
) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner)
        await server.at(NOON + MINUTE)
        await server.ended()
        server.clock.now = NOON + 2 * MINUTE
        claims = await server.firing.take(schedule.id)
        assert claims is not None
        await server.service.delete(owner, schedule.schedule_id)
        for claimed in claims:
            await server.firing.start(claimed)
        await server.at(NOON + 3 * MINUTE)

        assert len(await server.runs(owner)) == 1
        assert await server.firing.take(schedule.id) is None


async def test_the_history_is_limited(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "0 13 1 * *")
        await execute(
            database,
            f"""INSERT INTO schedule_runs
                       (schedule, due_at, trigger, run_id, outcome, next_attempt_at, start_by)
                SELECT '{schedule.id}', timestamptz '{NOON}' - n * interval '1 minute', 'cron', n::text,
                       'skipped', now(), now() FROM generate_series(1, {HISTORY_ROWS + 10}) AS n""",  # noqa: S608 - our own numbers
        )
        await server.at(NOON + HOUR)
        await server.ended()

        due_times = await server.history(owner, schedule)
        assert len(due_times) == HISTORY_ROWS
        assert due_times[-1].outcome == "started"


async def test_old_history_is_deleted(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "0 13 1 * *")
        await execute(
            database,
            f"""INSERT INTO schedule_runs
                       (schedule, due_at, trigger, run_id, outcome, next_attempt_at, start_by)
                SELECT '{schedule.id}', now() - n * interval '1 day', 'cron', n::text,
                       CASE WHEN n = 95 THEN 'waiting' ELSE 'skipped' END, now(), now()
                  FROM generate_series(80, 100) AS n""",  # noqa: S608 - our own id
        )
        await ScheduleUpkeep(database, Accounts(database).find_active_keys).delete_old_history()

        assert [due.run_id for due in await server.history(owner, schedule)][::-1] == [
            *(str(n) for n in range(80, 90)),
            "95",
        ]


async def test_a_schedule_ends(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, overlap="allow", end_at=NOON + 3 * MINUTE)
        for minutes in range(1, 10):
            await server.at(NOON + minutes * MINUTE)

        ended = await server.service.get(owner, schedule.schedule_id)
        assert due_at(await server.history(owner, schedule)) == [MINUTE, 2 * MINUTE]
        assert (ended.next_at, ended.paused) == (None, False)


async def test_what_is_due_stays_due_when_the_times_are_changed(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, "0 13 * * *")
        server.clock.now = NOON + HOUR + SECOND
        changed = await server.service.change(
            owner, schedule.schedule_id, lambda terms: replace(terms, timing=Timing("30 * * * *"))
        )
        await server.pass_once()
        await server.ended()
        await server.at(NOON + 2 * HOUR)
        await server.ended()

        assert changed.next_at == NOON + HOUR + 30 * MINUTE
        assert due_at(await server.history(owner, schedule)) == [HOUR, HOUR + 30 * MINUTE]
        assert await server.outcomes(owner, schedule) == ["started"] * 2


async def test_the_worker_starts_what_is_due_until_it_is_cancelled(
    database: Database, tmp_path: Path
) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedules = [await a_schedule(server, owner) for _ in range(30)]
        working = asyncio.create_task(server.worker.work())
        server.clock.now = NOON + MINUTE
        async with asyncio.timeout(20):
            while len(await server.runs(owner)) < len(schedules):
                await asyncio.sleep(0.01)
        working.cancel()
        await asyncio.wait({working})
        await server.ended()
        server.clock.now = NOON + 2 * MINUTE
        assert len(await server.runs(owner)) == len(schedules)


async def test_one_account_does_not_use_every_slot(database: Database, tmp_path: Path) -> None:
    config = FiringConfig(max_concurrent=8, max_per_account=2)
    async with a_schedule_server(database, tmp_path, config=config) as server:
        greedy, other = [caller_of(await an_account(database, name)) for name in ("greedy", "other")]
        for _ in range(20):
            await a_schedule(server, greedy)
        await a_schedule(server, other)
        server.clock.now = NOON + MINUTE

        found = await server.worker._find_work()

        assert sorted(due.account_id for due in found) == sorted(
            [greedy.account_id, greedy.account_id, other.account_id]
        )


@pytest.mark.parametrize("is_finished", [False, True])
async def test_a_run_outside_the_schedule_is_no_obstacle(
    database: Database, tmp_path: Path, *, is_finished: bool
) -> None:
    go_on = asyncio.Event()
    if is_finished:
        go_on.set()
    async with a_schedule_server(database, tmp_path, lambda _: until(go_on)) as server:
        owner = caller_of(await an_account(database))
        await server.core.service.start(owner, a_request(), request_id=None)
        schedule = await a_schedule(server, owner)
        await server.at(NOON + MINUTE)
        go_on.set()
        await server.ended()

        (due,) = await server.history(owner, schedule)
        assert due.outcome == "started"
        run = await server.core.service.get(RunKey(owner.account_id, due.run_id))
        assert run.finished


async def test_each_request_for_a_run_has_a_due_time_of_its_own(database: Database, tmp_path: Path) -> None:
    async with a_schedule_server(database, tmp_path) as server:
        owner = caller_of(await an_account(database))
        schedule = await a_schedule(server, owner, overlap="allow")
        await server.at(NOON + MINUTE)

        triggered = [await server.service.trigger(owner, schedule.schedule_id) for _ in range(2)]
        await server.ended()

        assert len(await server.runs(owner)) == 3
        assert [due.due_at - NOON - MINUTE for due in triggered] == [
            timedelta(microseconds=1),
            timedelta(microseconds=2),
        ]
