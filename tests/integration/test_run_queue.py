"""Which queued run becomes ready when, and which worker gets it: decided in the database."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.platform.db import Database
from app.runs.dispatch.limits import DispatchLimits, QueueFull
from app.runs.dispatch.records import QueuedCommand
from app.runs.dispatch.repository import insert_queued_command, lock_unexecuted_run
from app.runs.repository import find_run
from app.runs.requeueing.repository import requeue_run
from tests.integration.run_queue import GRAPH, Queue
from tests.patience import PATIENCE_S


async def test_a_ready_run_goes_to_one_worker(database: Database, key: KeyRecord) -> None:
    workers = [Queue(database, DispatchLimits(100)) for _ in range(4)]
    for worker in workers:
        await worker.join(20)
    names = [(await workers[0].post(key, f"r{number:02}")).key.run_id for number in range(20)]

    claimed = await asyncio.gather(*(worker.claim(3) for worker in workers for _ in range(3)))

    assert sorted(run for runs in claimed for run in runs) == names
    assert (await workers[0].held(), await workers[0].claim()) == ({}, [])


async def test_a_run_is_stored_as_running_where_it_may_start_at_once(
    database: Database, key: KeyRecord
) -> None:
    worker = Queue(database, DispatchLimits(100, per_account=1))
    first = await worker.post(key, "first", at_once=True)
    second = await worker.post(key, "second", at_once=True)

    assert (first.status, first.process_id, first.queued_position) == ("running", worker.process_id, None)
    assert first.started_at is not None
    assert (second.status, second.process_id, second.queued_position) == ("queued", None, 1)
    assert await worker.claim() == []


async def test_no_more_runs_of_an_account_are_active_than_its_limit(
    database: Database, key: KeyRecord
) -> None:
    """Posted, started and ended by several processes at once."""
    limit, runs = 3, 40
    workers = [Queue(database, DispatchLimits(2 * runs, per_account=limit)) for _ in range(3)]
    most, ended = 0, set[str]()

    async def post(worker: Queue, number: int) -> None:
        for each in range(number, runs, len(workers)):
            await worker.post(key, f"r{each}", at_once=each % 2 == 0)

    async def work(worker: Queue) -> None:
        nonlocal most
        while len(ended) < runs:
            await worker.claim(2)
            own = await worker.rows(
                "SELECT run_id FROM runs WHERE status = 'running' AND process_id = :process",
                process=worker.process_id,
            )
            most = max(most, await worker.active(key.account_id))
            for row in own:
                await worker.end(key, row.run_id)
                ended.add(row.run_id)

    posting = (post(worker, number) for number, worker in enumerate(workers))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*posting, *map(work, workers))

    assert most == limit
    assert await workers[0].held() == {}


@pytest.mark.parametrize(("ready", "shares"), [(9, [3, 2, 2]), (2, [1, 1, 0]), (100, [8, 8, 8])])
async def test_workers_that_are_woken_together_share_what_is_ready(
    database: Database, key: KeyRecord, ready: int, shares: list[int]
) -> None:
    workers = [Queue(database, DispatchLimits(200, per_account=200)) for _ in shares]
    for number in range(ready):
        await workers[0].post(key, f"r{number}")

    claims = [await worker.queue.claim(8, graphs=[GRAPH], workers=3) for worker in workers]
    assert [len(claim.runs) for claim in claims] == shares
    assert claims[-1].has_left_some is (ready > sum(shares))


async def test_the_next_run_of_an_account_is_of_the_key_with_the_fewest(database: Database) -> None:
    worker = Queue(database, DispatchLimits(100, per_account=2))
    busy, other = await worker.an_account("acme"), await worker.an_account("acme")
    for name in ("a1", "a2", "a3", "a4"):
        await worker.post(busy, name)
    for name in ("b1", "b2"):
        await worker.post(other, name)
    assert await worker.claim() == ["a1", "a2"]

    order: list[str] = []
    for key, run_id in ((busy, "a1"), (busy, "a2"), (other, "b1"), (busy, "a3")):
        await worker.end(key, run_id)
        order += await worker.claim()

    assert order == ["b1", "a3", "b2", "a4"]


async def test_a_key_has_a_limit_of_its_own(database: Database) -> None:
    worker = Queue(database, DispatchLimits(100, per_account=10, per_key=1))
    one, two = await worker.an_account("acme"), await worker.an_account("acme")
    for name in ("a1", "a2", "a3"):
        await worker.post(one, name)
    await worker.post(two, "b1")

    assert await worker.held() == {"a1": None, "a2": "limit", "a3": "limit", "b1": None}
    await worker.claim()
    await worker.end(two, "b1")
    assert await worker.held() == {"a2": "limit", "a3": "limit"}
    await worker.end(one, "a1")
    assert await worker.held() == {"a2": None, "a3": "limit"}


@pytest.mark.parametrize(("accounts", "ready"), [(1, 8), (2, 6)])
async def test_without_a_configured_limit_an_account_gets_its_share_of_all_places(
    database: Database, key: KeyRecord, accounts: int, ready: int
) -> None:
    worker, other, draining, dead = (Queue(database) for _ in range(4))
    await worker.join(5)
    await other.join(3)
    await draining.join(100, draining=True)
    await dead.join(100)
    await worker.execute(
        "UPDATE workers SET seen_at = now() - interval '1 minute' WHERE process_id = :process",
        process=dead.process_id,
    )
    if accounts == 2:
        await worker.an_account("other")

    for number in range(10):
        await worker.post(key, f"r{number}")

    assert list((await worker.held()).values()).count(None) == ready


async def test_a_worker_that_joins_has_places_for_runs_that_wait(database: Database, key: KeyRecord) -> None:
    first, second = Queue(database), Queue(database)
    await first.join(1)
    for number in range(3):
        await first.post(key, f"r{number}")
    assert (await first.queue.due()).to_release == []

    await second.join(1)

    due = await second.queue.due()
    assert due.to_release == [(key.account_id, None)]
    await second.queue.release(*due.to_release[0])
    assert await second.held() == {"r0": None, "r1": None, "r2": "limit"}


async def test_turns_posted_while_others_end_are_executed_in_order(
    database: Database, key: KeyRecord
) -> None:
    worker, turns = Queue(database, DispatchLimits(1000, per_account=100)), 30
    executed: list[str] = []

    async def post(chat: str) -> None:
        for number in range(turns):
            await worker.post(key, f"{chat}-{number:02}", chat=chat, at_once=number % 3 == 0)

    async def work() -> None:
        while len(executed) < 2 * turns:
            await worker.claim(1)
            for row in await worker.rows("SELECT run_id FROM runs WHERE status = 'running'"):
                if row.run_id not in executed:
                    executed.append(row.run_id)
                    await worker.end(key, row.run_id)

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(post("a"), post("b"), work())

    for chat in ("a", "b"):
        assert [run for run in executed if run.startswith(chat)] == [f"{chat}-{n:02}" for n in range(turns)]


async def test_the_next_turn_is_offered_to_the_worker_that_keeps_the_agent(
    database: Database, key: KeyRecord
) -> None:
    limits = DispatchLimits(100, kept_for=timedelta(minutes=1), offered_for=timedelta(milliseconds=300))
    keeps, other = Queue(database, limits), Queue(database, limits)
    await keeps.join(4)
    await other.join(4)
    await keeps.post(key, "r0", chat="chat", at_once=True)
    # Waits for the first one; and one that is posted after it has ended.
    await other.post(key, "r1", chat="chat")
    await keeps.end(key, "r0")
    assert await other.claim() == []
    assert await keeps.claim() == ["r1"]
    await keeps.end(key, "r1")
    posted = await other.post(key, "r2", chat="chat", at_once=True)
    assert posted.status == "queued"

    # That worker is busy.
    async with asyncio.timeout(PATIENCE_S):
        while not (claimed := await other.claim()):
            await asyncio.sleep(0.02)
    assert claimed == ["r2"]
    await other.end(key, "r2")
    assert (await other.post(key, "r3", chat="chat", at_once=True)).status == "running"


@pytest.mark.parametrize("gone", ["draining", "dead", "forgotten"])
async def test_no_turn_is_offered_to_a_worker_that_keeps_nothing(
    database: Database, key: KeyRecord, gone: str
) -> None:
    limits = DispatchLimits(100, kept_for=timedelta(minutes=1), offered_for=timedelta(minutes=1))
    kept, other = Queue(database, limits), Queue(database, limits)
    await kept.join(4, draining=gone == "draining")
    await other.join(4)
    await kept.post(key, "r0", chat="chat", at_once=True)
    await kept.end(key, "r0")
    if gone == "dead":
        await kept.execute("UPDATE workers SET seen_at = now() - interval '20 s' WHERE places = 4")
        await other.join(4)
    if gone == "forgotten":
        await kept.execute("UPDATE runs SET ended_at = now() - interval '2 minutes'")

    assert (await other.post(key, "r1", chat="chat", at_once=True)).status == "running"


async def test_one_run_behind_many_of_another_account_is_next(database: Database, key: KeyRecord) -> None:
    worker = Queue(database, DispatchLimits(1000, per_account=50))
    for number in range(60):
        await worker.post(key, f"r{number:02}")
    assert await worker.claim(4) == ["r00", "r01", "r02", "r03"]
    await worker.post(await worker.an_account("other"), "theirs")

    assert await worker.claim(1) == ["theirs"]


async def test_the_priority_decides_which_run_of_an_account_is_next(
    database: Database, key: KeyRecord
) -> None:
    worker = Queue(database, DispatchLimits(100, per_account=1))
    await worker.post(key, "first", at_once=True)
    for name, priority in (("low", 5), ("normal", 3), ("high", 1)):
        await worker.post(key, name, priority=priority)

    order: list[str] = []
    for ended in ("first", "high", "normal"):
        await worker.end(key, ended)
        order += await worker.claim()

    assert order == ["high", "normal", "low"]


async def test_a_run_is_held_until_its_time(database: Database, key: KeyRecord) -> None:
    worker = Queue(database)
    await worker.join(4)
    now = datetime.now(UTC)
    await worker.post(key, "late", start_after=now + timedelta(hours=1), at_once=True)
    await worker.post(key, "past", start_after=now - timedelta(hours=1))
    assert await worker.held() == {"late": "start_time", "past": None}
    assert (await worker.queue.due()).to_release == []

    await worker.execute("UPDATE runs SET start_after = now() WHERE run_id = 'late'")

    (due,) = (await worker.queue.due()).to_release
    await worker.queue.release(*due)
    assert sorted(await worker.claim()) == ["late", "past"]


async def test_a_full_queue_refuses_runs_and_half_of_it_is_for_others(
    database: Database, key: KeyRecord
) -> None:
    worker = Queue(database, DispatchLimits(4, per_account=2))
    await worker.join(2)
    other = await worker.an_account("other")
    for number in range(4):
        await worker.post(key, f"r{number}")

    with pytest.raises(QueueFull) as refused:
        await worker.post(key, "r4")
    assert refused.value.limit == 6
    await worker.post(other, "o0")
    await worker.post(other, "o1")
    with pytest.raises(QueueFull):
        await worker.post(other, "o2")
    await worker.claim()
    await worker.end(key, "r0")
    await worker.post(other, "o2")


async def test_a_refused_run_leaves_nothing(database: Database, key: KeyRecord) -> None:
    worker = Queue(database, DispatchLimits(0, per_account=1))
    with pytest.raises(QueueFull):
        await worker.post(key, "r0", chat="chat")

    assert await worker.rows("SELECT * FROM runs") == []
    assert await worker.rows("SELECT * FROM sessions") == []


async def test_a_release_that_another_transaction_prevented_is_made_up_for(
    database: Database, key: KeyRecord
) -> None:
    worker = Queue(database)
    await worker.join(4)
    for number in range(2):
        await worker.post(key, f"r{number}", chat="chat", at_once=True)
    async with database.transaction() as tx:
        await tx.execute(text("SELECT FROM runs WHERE run_id = 'r1' FOR UPDATE"))
        async with asyncio.timeout(PATIENCE_S):
            await worker.end(key, "r0")
    assert await worker.held() == {"r1": "turn"}

    assert (await worker.queue.due()).to_release == [(key.account_id, "chat")]
    await worker.queue.release(key.account_id, "chat")
    assert await worker.held() == {"r1": None}


async def test_a_run_of_a_graph_that_a_worker_does_not_know_waits_for_another(
    database: Database, key: KeyRecord
) -> None:
    worker = Queue(database)
    await worker.join(4)
    await worker.post(key, "new", graph="claude_agents:new")
    await worker.post(key, "old")
    assert await worker.claim() == ["old"]

    await worker.execute("UPDATE runs SET ready_at = now() - interval '2 minutes'")
    # No worker knows it: this one ends it.
    assert await worker.claim() == ["new"]


async def test_a_cancelled_run_is_not_started(database: Database, key: KeyRecord) -> None:
    worker = Queue(database, DispatchLimits(100, per_account=1))
    await worker.join(4)
    ready, held = await worker.post(key, "ready"), await worker.post(key, "held")
    await worker.execute("""UPDATE runs SET interruption = '{"kind": "cancel", "state": "requested"}'""")

    assert await worker.claim() == []
    assert set((await worker.queue.due()).to_cancel) == {ready.key, held.key}


async def test_a_resumed_run_is_the_next_of_all(database: Database, key: KeyRecord) -> None:
    worker, other = Queue(database, DispatchLimits(100, per_account=50)), Queue(database)
    lost = await worker.post(key, "lost", at_once=True)
    for number in range(3):
        await worker.post(key, f"r{number}")
    async with database.transaction() as tx:
        await requeue_run(tx, lost.key)

    assert await other.claim(1) == ["lost"]
    async with database.read() as reader:
        record = await find_run(reader, lost.key)
    assert record is not None
    assert (record.attempt, record.process_id) == (1, other.process_id)
    # Its limit counted it all the time.
    assert await other.active(key.account_id) == 4


async def test_a_command_that_was_stored_while_a_run_was_claimed_is_not_missed(
    database: Database, key: KeyRecord
) -> None:
    worker = Queue(database)
    await worker.join(4)
    run = (await worker.post(key, "r0")).key

    async def claim_with_commands() -> bool:
        while not (claimed := (await worker.queue.claim(1, graphs=[GRAPH])).runs):
            await asyncio.sleep(0)
        return claimed[0].has_commands

    async with database.transaction() as tx:
        assert await lock_unexecuted_run(tx, run) is not None
        claiming = asyncio.create_task(claim_with_commands())
        await asyncio.sleep(0.05)
        await insert_queued_command(tx, QueuedCommand(run, {"type": "send"}))

    assert await claiming
