"""Runs whose process has died: what the database still knows of them is enough to end or resume them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import pytest
from sqlalchemy import text

from app.events import AssistantFinal, ClientEvent, Done, RunError
from app.ids import RunKey
from app.platform.clock.lease import Lease
from app.platform.db import AttemptOver, Database, DatabaseUnavailable, require_attempt
from app.requests.outcome import FinalUsage
from app.requests.run_request import GraphRunRequest
from app.runs.recovery.repository import record_takeovers
from app.runs.recovery.resumption import MAX_ATTEMPTS
from app.streams.memory import MemoryEventLog
from tests.contracts.event_logs import a_relayed_log
from tests.e2e.stories import until
from tests.factories import a_wait, reached_by
from tests.integration.run_process import begin_next_attempt
from tests.integration.run_service import ONCE, RETRIED, Core, OpenCore, a_lost_run, beat
from tests.integration.statements import execute, scalar
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage


async def without_heartbeat(database: Database) -> None:
    await execute(database, "UPDATE workers SET seen_at = now() - interval '1 hour'")


async def require(database: Database, run: RunKey, *, attempt: int) -> None:
    """Raise `AttemptOver` if the attempt was taken over."""
    async with database.transaction() as tx:
        await require_attempt(tx, run, attempt)


async def reserved(core: Core, run: RunKey) -> int:
    return (await core.process.ledger.balance(run.account_id)).reserved


async def test_a_lost_run_ends_and_its_credit_is_released(open_core: OpenCore, database: Database) -> None:
    async with open_core() as core:
        run = await a_lost_run(core, ONCE)
        before = await reserved(core, run)

        assert await core.recovery.recover() == 1
        assert (await core.service.get(run)).status == "failed"
        assert [entry.event for entry in await core.service.events(run)] == [
            RunError(error="internal"),
            Done(usage=FinalUsage(), finish_reason="error"),
        ]
        assert before > await reserved(core, run) == 0
        assert await core.recovery.recover() == 0
        with pytest.raises(AttemptOver):
            await require(database, run, attempt=0)


async def test_a_run_that_may_be_repeated_is_resumed_as_its_next_attempt(
    open_core: OpenCore, database: Database
) -> None:
    async with open_core() as core:
        run = await a_lost_run(core, RETRIED, "chat-1")

        assert await core.recovery.recover() == 1

        final = await core.service.wait(run)
        assert (final.ok, final.content) == (True, "Good morning.")
        assert (await core.service.get(run)).attempt == 1
        await require(database, run, attempt=1)
        with pytest.raises(AttemptOver):
            await require(database, run, attempt=0)


async def test_a_run_without_a_conversation_is_not_repeated(open_core: OpenCore) -> None:
    async with open_core() as core:
        run = await a_lost_run(core, RETRIED)

        await core.recovery.recover()

        record = await core.service.get(run)
        assert (record.status, record.attempt) == ("failed", 0)


async def test_a_heartbeat_says_how_far_the_clock_of_its_process_is_ahead(
    open_core: OpenCore, database: Database
) -> None:
    async with open_core() as core:
        core.heartbeat._clock.observe("database", datetime.now(UTC) - timedelta(minutes=4))
        await core.heartbeat.send()
        ahead_s = await scalar(database, "SELECT clock_ahead_s FROM workers")

    assert 240 <= ahead_s < 240 + PATIENCE_S


@pytest.mark.parametrize("lost", [False, True])
async def test_a_claimed_run_is_resumed_once_the_database_answers_again_unless_it_is_lost(
    open_core: OpenCore, database: Database, *, lost: bool
) -> None:
    executed: list[GraphRunRequest] = []
    async with open_core(partial(recorded, executed)) as core:
        run = await a_lost_run(core, RETRIED, "chat-1")
        await execute(database, "ALTER TABLE open_messages RENAME TO unavailable")
        assert await core.recovery.recover() == 1
        await until(lambda: run in core.starter.attempts())
        if lost:
            async with database.transaction() as tx:
                await record_takeovers(tx, [await core.service.get(run)])
                await begin_next_attempt(tx, run)
            await core.heartbeat.send()
        await execute(database, "ALTER TABLE unavailable RENAME TO open_messages")
        await until(lambda: run not in core.starter.attempts())

    assert len(executed) == (0 if lost else 1)


def recorded(executed: list[GraphRunRequest], request: GraphRunRequest) -> list[WriteMessage]:
    executed.append(request)
    return [WriteMessage("Good morning.")]


class SlowEnd(MemoryEventLog):
    """Publishes the end of a run when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ending, self.may_end = asyncio.Event(), asyncio.Event()

    async def append(self, run: RunKey, event: ClientEvent, *, at: int | None = None) -> int:
        if isinstance(event, Done):
            self.is_ending.set()
            await self.may_end.wait()
        return await super().append(run, event, at=at)


async def test_a_run_that_has_just_ended_here_is_not_lost(open_core: OpenCore) -> None:
    log = SlowEnd()
    async with open_core(log=log) as core:
        record = await core.start()
        reading = asyncio.create_task(_types_of(log, record.key))
        await log.is_ending.wait()
        assert (await core.service.get(record.key)).finished
        await beat(core)
        log.may_end.set()

        assert (await reading)[-1] == "done"


async def _types_of(log: MemoryEventLog, run: RunKey) -> list[str]:
    async with asyncio.timeout(PATIENCE_S), aclosing(log.follow(run)) as batches:
        return [entry.event.type async for batch in batches for entry in batch]


@pytest.mark.parametrize("handed_over", [False, True])
async def test_what_crashes_every_process_is_given_up(
    open_core: OpenCore, database: Database, *, handed_over: bool
) -> None:
    """A process that gives the run away has not been crashed by it."""
    async with open_core(is_dispatching=False) as core:
        run = await a_lost_run(core, RETRIED, "chat-1")
        async with database.transaction() as tx:
            for attempt in range(MAX_ATTEMPTS - 1):
                lost = replace(await core.service.get(run), attempt=attempt)
                await record_takeovers(tx, [lost], handed_over=handed_over)
                await begin_next_attempt(tx, run)

        assert await core.recovery.recover() == 1

        record = await core.service.get(run)
        ended = ("failed", MAX_ATTEMPTS - 1)
        assert (record.status, record.attempt) == (("queued", MAX_ATTEMPTS) if handed_over else ended)


async def test_a_process_does_not_recover_its_own_runs(open_core: OpenCore) -> None:
    pause = a_wait()
    async with open_core(lambda _: [WriteMessage("Late.", before_end=pause)]) as core:
        record = await core.start()
        await reached_by(pause)

        recovered = await core.recovery.recover(is_alone=True)
        pause.until.set()

        assert recovered == 0
        assert (await core.service.wait(record.key)).content == "Late."


async def test_a_process_that_stood_still_stops_runs_that_another_has_resumed_or_ended(
    open_core: OpenCore, database: Database
) -> None:
    late = [WriteMessage("Late.", before_end=a_wait())]
    async with open_core(lambda _: late, is_dispatching=False) as frozen, open_core() as other:
        resumed = await frozen.start(RETRIED, state_key="k")
        ended = await frozen.start()
        await beat(frozen)
        supervisor = frozen.process.supervisor
        assert list(supervisor.active_attempts()) == [resumed.key, ended.key]
        await without_heartbeat(database)
        assert await other.recovery.recover() == 2
        await other.service.wait(resumed.key)

        await beat(frozen)

        await until(lambda: not supervisor.active_attempts())
        finals = [await other.service.wait(run.key) for run in (resumed, ended)]

    assert [final.content for final in finals] == ["Good morning.", ""]


async def beats(core: Core, until: Callable[[], Awaitable[bool]]) -> None:
    """Send heartbeats as often as a server with this lease."""
    async with asyncio.timeout(PATIENCE_S):
        while not await until():
            await beat(core)
            await asyncio.sleep(core.process.lease.term_s / 6)


async def test_a_process_that_has_just_found_the_database_again_takes_over_nothing(
    open_core: OpenCore, database: Database
) -> None:
    async with open_core(lease=Lease(0.6)) as core:

        async def has_ended(run: RunKey) -> bool:
            return (await core.service.get(run)).status == "failed"

        at_start = await a_lost_run(core, ONCE)
        await without_heartbeat(database)
        await beat(core)
        assert not await has_ended(at_start)
        await beats(core, partial(has_ended, at_start))

        # The database was away, or this process stood still: the others had no chance either.
        after_pause = await a_lost_run(core, ONCE, name="2")
        await without_heartbeat(database)
        await asyncio.sleep(core.process.lease.term_s)
        await beat(core)
        assert not await has_ended(after_pause)
        await beats(core, partial(has_ended, after_pause))


@dataclass
class Alive:
    """Knows which processes may be alive."""

    processes: set[UUID]

    async def may_be_alive(self, process_id: UUID) -> bool:
        return process_id in self.processes


async def test_runs_of_a_process_that_answers_are_left_to_it(open_core: OpenCore, database: Database) -> None:
    peers = Alive(set())
    async with open_core() as cut_off, open_core() as died, open_core(peers=peers) as judge:
        kept, lost = (
            await a_lost_run(cut_off, ONCE, process_id=cut_off.process.process_id),
            await a_lost_run(died, ONCE, name="2", process_id=died.process.process_id),
        )
        await without_heartbeat(database)
        peers.processes = {cut_off.process.process_id}
        assert await judge.recovery.recover() == 1
        statuses = [(await judge.service.get(run)).status for run in (kept, lost)]
        peers.processes.clear()
        assert await judge.recovery.recover() == 1

    assert statuses == ["running", "failed"]


async def test_a_run_of_this_process_that_was_not_confirmed_needs_no_witness(open_core: OpenCore) -> None:
    peers = Alive(set())
    async with open_core(peers=peers, lease=Lease(0.6)) as core:
        own = core.process.process_id
        peers.processes = {own}
        run = await a_lost_run(core, ONCE, process_id=own)
        await beat(core)
        assert (await core.service.get(run)).status == "running"

        async def has_ended() -> bool:
            return (await core.service.get(run)).status == "failed"

        await beats(core, has_ended)


async def test_what_a_frozen_process_publishes_after_a_takeover_is_dropped(
    open_core: OpenCore, database: Database, redis_url: str
) -> None:
    pause = a_wait()
    late = [WriteMessage("Late.", before_end=pause)]
    async with (
        a_relayed_log(redis_url) as log_of_frozen,
        a_relayed_log(redis_url) as log_of_other,
        open_core(lambda _: late, log=log_of_frozen, is_dispatching=False) as frozen,
        open_core(log=log_of_other) as other,
    ):
        run = await frozen.start(RETRIED, state_key="k")
        await reached_by(pause)
        await without_heartbeat(database)
        assert await other.recovery.recover() == 1
        await beat(frozen)
        pause.until.set()
        final = await other.service.wait(run.key)
        supervisor = frozen.process.supervisor
        await until(lambda: not supervisor.active_attempts())
        events = [entry.event for entry in await other.service.events(run.key)]

    assert final.content == "Good morning."
    assert [event.type for event in events].count("done") == 1
    assert [event.content for event in events if isinstance(event, AssistantFinal)] == ["Good morning."]


async def test_the_transactions_of_a_process_that_stands_still_are_ended(
    open_core: OpenCore, database: Database, database_url: str
) -> None:
    async with open_core() as frozen, open_core() as other:
        run = await a_lost_run(frozen, ONCE, process_id=frozen.process.process_id)
        await without_heartbeat(database)
        of_frozen = await Database.open(database_url, process_id=frozen.process.process_id)

        still = asyncio.Event()
        standing_still = asyncio.create_task(_stand_still(of_frozen, run, still))
        async with asyncio.timeout(PATIENCE_S):
            while not await _holds_the_run(database, run):
                await asyncio.sleep(0.01)

        async with asyncio.timeout(PATIENCE_S):
            while await other.recovery.recover() == 0:
                await asyncio.sleep(0.05)
        still.set()
        with pytest.raises(DatabaseUnavailable):
            await standing_still
        await of_frozen.aclose()


async def _stand_still(database: Database, run: RunKey, until: asyncio.Event) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("SET idle_in_transaction_session_timeout = 0"))
        await require_attempt(tx, run, 0)
        await until.wait()


async def _holds_the_run(database: Database, run: RunKey) -> bool:
    statement = "SELECT run_id FROM runs WHERE run_id = :run_id FOR UPDATE SKIP LOCKED"
    async with database.transaction() as tx:
        return (await tx.execute(text(statement), {"run_id": run.run_id})).first() is None
