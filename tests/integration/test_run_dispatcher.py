"""Runs that wait for a place, in one process and in several."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import text

from app.errors import Invalid
from app.events import ClientEvent, Done, Interrupted, Queued, RunError
from app.executors.inbox import MessageLimits, MessageQueueFull, RunEnded
from app.executors.waiting.records import PermissionNotFound
from app.graphs.spec import GraphSpec
from app.ids import RunKey
from app.platform.clock.boot_time import boot_time
from app.platform.clock.event_times import milliseconds
from app.platform.clock.lease import Lease
from app.platform.db import Database
from app.platform.storage.service import StorageFull
from app.requests.outcome import FinalUsage
from app.requests.principal import ScopeMissing
from app.runs.commands.records import ChangeMode, Decide, Send
from app.runs.requests.codec import encoded
from app.streams.port import LogEntry
from tests.e2e.stories import until
from tests.entries import AnyTime
from tests.factories import a_wait, an_account, not_none, reached_by
from tests.integration.run_service import ONCE, Core, OpenCore, a_request, caller_of
from tests.integration.statements import execute, rows
from tests.integration.test_storage import kept
from tests.patience import PATIENCE_S
from tests.scripted import Action, WaitFor, WriteMessage

STOPPED: list[ClientEvent] = [
    *(Interrupted(kind="cancel", state=state) for state in ("requested", "acknowledged", "stopped")),
    RunError(error="aborted"),
    Done(usage=FinalUsage(), finish_reason="aborted"),
]


async def followed(core: Core, run: RunKey, after: int = 0) -> list[LogEntry]:
    """What a reader gets of a run until its end."""
    async with asyncio.timeout(PATIENCE_S):
        return [entry async for batch in core.service.follow(run, after=after) for entry in batch]


async def test_a_queued_run_begins_with_its_position(open_core: OpenCore) -> None:
    go_on = asyncio.Event()
    async with open_core(lambda _: [WaitFor(go_on), WriteMessage("Hi.")], places=1) as core:
        first, second, third = [await core.start() for _ in range(3)]
        early = [asyncio.create_task(followed(core, run.key)) for run in (second, third)]
        await until(lambda: len(core.process.log) == 3)  # type: ignore[arg-type]
        so_far = [await core.service.events(run.key) for run in (second, third)]
        go_on.set()
        events = [await task for task in early]
        late = [await followed(core, run.key) for run in (second, third)]
        record = await core.service.get(second.key)
        middle = await followed(core, second.key, after=2)

    times = [entry.at for entry in events[0]]
    assert record.ended_at is not None
    assert times == sorted(times)
    assert (times[0], times[-1]) == (milliseconds(record.created_at), milliseconds(record.ended_at))
    assert middle == late[0][2:]
    assert first.queued_position is None
    assert [list(each) for each in so_far] == [[AnyTime(1, Queued(position=n))] for n in (1, 2)]
    assert [each[0] for each in events] == [each[0] for each in so_far]
    assert events == late
    assert [entry.position for entry in events[0]] == list(range(1, len(events[0]) + 1))


async def test_a_queued_run_can_be_cancelled(open_core: OpenCore, database: Database) -> None:
    go_on = asyncio.Event()
    async with open_core(lambda _: [WaitFor(go_on), WriteMessage("Hi.")], places=1) as core:
        key = await an_account(database)
        await core.process.ledger.grant(key.account_id, 10**9)
        await core.process.ledger.change_mode(key.account_id, "prepaid")
        first, second, third = [
            await core.service.start(caller_of(key), a_request(state_key="chat"), request_id=None)
            for _ in range(3)
        ]
        reading = asyncio.create_task(followed(core, second.key))
        await asyncio.sleep(0)

        record = await core.process.commands.stop(second.key, "cancel")

        assert (record.status, record.started_at) == ("cancelled", None)
        assert record.interruption is not None
        assert record.interruption["state"] == "stopped"
        assert (await core.process.commands.stop(second.key, "cancel")).status == "cancelled"
        expected = [AnyTime(n, event) for n, event in enumerate([Queued(position=1), *STOPPED], 1)]
        assert await reading == await followed(core, second.key) == expected
        assert (await core.service.wait(second.key)).error == "aborted"
        go_on.set()
        assert (await core.service.wait(third.key)).ok
        assert (await core.service.wait(first.key)).ok
        assert (await core.process.ledger.balance(key.account_id)).reserved == 0


async def test_a_cancelled_run_releases_the_next_turn(open_core: OpenCore, database: Database) -> None:
    async with open_core(places=0, is_dispatching=False) as core:
        first, _ = [await core.start(state_key="chat") for _ in range(2)]
        held = text("SELECT held_for FROM runs WHERE ended_at IS NULL ORDER BY turn")
        async with database.read() as reader:
            before = list((await reader.execute(held)).scalars())
        await core.process.commands.stop(first.key, "cancel")
        async with database.read() as reader:
            after = list((await reader.execute(held)).scalars())

    assert (before, after) == ([None, "turn"], [None])


async def test_messages_to_a_queued_run_reach_its_agent(open_core: OpenCore, database: Database) -> None:
    go_on, pause = asyncio.Event(), a_wait()
    scripts: list[list[Action]] = [
        [WaitFor(go_on), WriteMessage("Hi.")],
        [WriteMessage("Late.", before_end=pause)],
    ]
    async with open_core(lambda _: scripts.pop(0), places=1) as core:
        _, second = [await core.start() for _ in range(2)]
        messages = [Send(message_id=f"m{n}", content=f"more {n}", priority="next") for n in (1, 2)]
        for message in (*messages, messages[0]):
            assert await core.process.commands.submit(second.key, message) == {"position": None}
        go_on.set()
        await reached_by(pause)
        active = not_none(core.process.supervisor.find(second.key))
        assert [message.message_id in active.control.inbox for message in messages] == [True, True]
        pause.until.set()
        await core.service.wait(second.key)
        assert await rows(database, "SELECT * FROM queued_commands") == []


async def a_queued_run(core: Core) -> RunKey:
    """A run of a process with one place, which another one has."""
    runs = [await core.start() for _ in range(2)]
    assert runs[1].status == "queued"
    return runs[1].key


async def test_messages_to_a_queued_run_are_limited_and_stored_by_quota(
    open_core: OpenCore, database: Database
) -> None:
    hangs = [WaitFor(asyncio.Event())]
    limits = MessageLimits(count=2, size=10**6)
    async with open_core(lambda _: hangs, places=1, max_bytes=1000, messages=limits) as core:
        submit, run = core.process.commands.submit, await a_queued_run(core)
        with pytest.raises(StorageFull):
            await submit(run, Send(message_id="m0", content="x" * 1000, priority="next"))
        before = await kept(database, run.account_id)
        for number in range(2):
            await submit(run, Send(message_id=f"m{number}", content="more", priority="next"))
        with pytest.raises(MessageQueueFull):
            await submit(run, Send(message_id="m2", content="more", priority="next"))
        await submit(run, Send(message_id="m1", content="more", priority="next"))
        assert await kept(database, run.account_id) > before
        await core.process.commands.stop(run, "cancel")
        assert await rows(database, "SELECT * FROM queued_commands") == []
        with pytest.raises(RunEnded):
            await submit(run, Send(message_id="m3", content="more", priority="next"))


async def test_the_mode_of_a_queued_run_is_checked_and_kept_for_its_start(open_core: OpenCore) -> None:
    go_on, pause = asyncio.Event(), a_wait()
    late = WriteMessage("Late.", before_end=pause)
    scripts: list[list[Action]] = [[WaitFor(go_on), WriteMessage("Hi.")], [late]]
    async with open_core(lambda _: scripts.pop(0), places=1) as core:
        submit, run = core.process.commands.submit, await a_queued_run(core)
        with pytest.raises(Invalid):
            await submit(run, ChangeMode(mode="acceptEdits", may_loosen=True))
        await submit(run, ChangeMode(mode="plan"))
        with pytest.raises(ScopeMissing):
            await submit(run, ChangeMode(mode="default"))
        with pytest.raises(PermissionNotFound):
            await submit(run, Decide(request_id="r", decision="allow"))
        go_on.set()
        await reached_by(pause)
        active = not_none(core.process.supervisor.find(run))
        assert active.control.approvals.mode == "plan"
        pause.until.set()
        await core.service.wait(run)


async def test_without_notifications_ready_runs_are_found_all_the_same(
    open_core: OpenCore, database: Database
) -> None:
    """Some connection poolers pass none on."""
    async with open_core() as core:
        await execute(
            database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        )
        for _ in range(core.process.places.total):
            core.process.places.take()
        record = await core.start()
        assert record.status == "queued"
        core.process.places.may_have_backlog = False
        core.process.places.give_back(core.process.places.total)

        async with asyncio.timeout(PATIENCE_S):
            assert (await core.service.wait(record.key)).ok


async def test_a_run_that_cannot_be_started_any_more_ends_and_gives_back_its_place(
    open_core: OpenCore, database: Database
) -> None:
    removed = GraphSpec(name="removed", description="Is removed.", system_prompt="p")
    go_on = asyncio.Event()
    async with open_core(lambda _: [WaitFor(go_on), WriteMessage("Hi.")], places=1) as core:
        await core.start()
        gone, unreadable, last = [await core.start(ONCE) for _ in range(3)]
        changed = "UPDATE runs SET request = CAST(:request AS json) WHERE run_id = :run_id"
        for run, request in ((gone, a_request(removed)), (unreadable, None)):
            text_ = "{}" if request is None else encoded(request)
            await execute(database, changed, request=text_, run_id=run.key.run_id)
        go_on.set()
        async with asyncio.timeout(PATIENCE_S):
            ends = [await core.service.wait(run.key) for run in (gone, unreadable, last)]

        assert [end.error for end in ends] == ["internal", "internal", None]
        await until(lambda: core.process.places.taken == 0)


@dataclass
class Passing:
    """Time that passes when a test says so."""

    s: float = field(default_factory=boot_time)

    def __call__(self) -> float:
        return self.s


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_run_whose_claim_takes_longer_than_the_lease_waits_for_a_heartbeat(
    open_core: OpenCore, database: Database, *, at_once: bool
) -> None:
    """As in a process that stands still meanwhile: another one may have taken the run over."""
    now = Passing()
    lease = Lease(15, elapsed_s=now)
    async with open_core(lease=lease, is_dispatching=False) as core:
        core.process.places.may_have_backlog = not at_once
        claim: Coroutine[Any, Any, object] = core.start()
        if not at_once:
            await claim
            claim = core.dispatcher.claim()
        async with standing_still(database):
            claiming = asyncio.create_task(claim)
            await until_blocked(database)
            now.s += 40
            # By a heartbeat that has none of the runs.
            lease.renew(since=now.s)
        await claiming
        await until(lambda: len(core.process.supervisor.active()) == 1)
        (run,) = core.process.supervisor.active()
        await asyncio.sleep(0.1)
        assert lease.is_held
        assert list(await core.service.events(run.plan.run)) == []

        await core.heartbeat.send()
        assert (await core.service.wait(run.plan.run)).ok


@asynccontextmanager
async def standing_still(database: Database) -> AsyncIterator[None]:
    """Within it no run can be stored or claimed."""
    async with database.transaction() as tx:
        await tx.execute(text("LOCK TABLE runs IN EXCLUSIVE MODE"))
        yield


async def until_blocked(database: Database) -> None:
    """Wait until a statement waits for a lock."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with database.read() as reader:
                if (await reader.execute(waiting)).scalar_one():
                    return
            await asyncio.sleep(0.01)
