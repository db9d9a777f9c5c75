"""What an account keeps is counted as it comes and goes."""

import asyncio
from dataclasses import replace

import pytest

from app.conversations.records import Transcript, TranscriptEntry
from app.conversations.repository import delete_entries
from app.conversations.transcript_store import TranscriptStore
from app.events import TextDelta
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.storage.records import KEPT_FOR_EVER, Retention
from app.platform.storage.repository import stored_bytes
from app.platform.storage.service import StorageFull, StorageQuota
from app.runs.deletion.service import RunDeletion, RunNotEnded
from app.runs.events.codec import encode_events
from app.runs.events.terminal import POSITIONS_PER_ATTEMPT, with_positions
from app.runs.records import NewRun
from app.runs.repository import find_run, finish_run, stored_events
from app.runs.waits.live import RunWaits
from app.runs.waits.repository import resolve_call
from app.workspaces.records import HostTraffic
from app.workspaces.service import FilesExpired, Workspaces
from app.workspaces.spec import WorkspaceSpec
from tests.factories import a_final, an_account
from tests.integration.conversations import conversations_over
from tests.integration.run_process import insert
from tests.integration.statements import execute, scalar
from tests.integration.test_waiting_runs import a_call, execute_elsewhere, park

KB = 1024


async def kept(database: Database, account_id: AccountId) -> int:
    async with database.write() as tx:
        return await stored_bytes(tx, account_id)


async def an_accepted_run(database: Database, *, size: int = 0, run_id: str = "run-1") -> RunKey:
    key = await an_account(database)
    run = RunKey(key.account_id, RunId(run_id))
    request = '{"text": "' + "x" * size + '"}'
    new = NewRun(run, key.id, "claude_agents:assistant", "m", request, "what?", b"", None, new_uuid())
    async with database.transaction() as tx:
        await insert(tx, new)
    return run


async def end(database: Database, run: RunKey, *, answer_text: str = "", attempt: int = 0) -> None:
    final = a_final(run.run_id, content=answer_text)
    events = encode_events(
        with_positions([TextDelta(message_id="m", delta=answer_text)], after=attempt * POSITIONS_PER_ATTEMPT)
    )
    async with database.transaction() as tx:
        await finish_run(tx, run, attempt=attempt, final=final, report=None, events=events)


def contents_of(database: Database, *, keep: Retention = KEPT_FOR_EVER) -> tuple[RunDeletion, Workspaces]:
    workspaces = Workspaces(database, ())
    storage = StorageQuota(database, None)
    delete_unused = conversations_over(database).delete_unused
    return RunDeletion(database, storage, delete_unused, by_default=keep), workspaces


async def test_requests_events_and_answers_count(database: Database) -> None:
    run = await an_accepted_run(database, size=100 * KB)

    assert 100 * KB < await kept(database, run.account_id) < 101 * KB
    await end(database, run, answer_text="y" * 10 * KB)

    assert 120 * KB < await kept(database, run.account_id) < 121 * KB


async def test_what_a_run_is_parked_with_counts_until_it_goes_on_and_its_calls_until_it_is_deleted(
    database: Database,
) -> None:
    run = await an_accepted_run(database)
    await execute_elsewhere(database, run)
    before = await kept(database, run.account_id)
    call = replace(a_call(), request={"args": "a" * 10 * KB})
    await park(database, run, call, state={"messages": "m" * 100 * KB})
    parked = await kept(database, run.account_id)
    async with database.transaction() as tx:
        await resolve_call(tx, run, call.call_id, resolved_by="decided", answer="b" * 20 * KB)
    answered = await kept(database, run.account_id)
    await execute_elsewhere(database, run)
    await RunWaits(database, run, 1).resume()
    resumed = await kept(database, run.account_id)
    await park(database, run, attempt=1, state={"messages": "m" * 100 * KB})
    again = await kept(database, run.account_id)
    await end(database, run, attempt=2)
    ended = await kept(database, run.account_id)
    await contents_of(database)[0].delete(run)

    steps = [parked - before, answered - parked, resumed - answered, again - resumed, ended - again]
    # The events and the end of the run, which have no text, count as well.
    assert [round(bytes_ / KB) for bytes_ in steps] == [110, 20, -100, 100, -100]
    assert await kept(database, run.account_id) < KB


async def test_conversations_count_until_they_are_deleted(database: Database) -> None:
    account_id = (await an_account(database)).account_id
    store, transcript = TranscriptStore(database), Transcript(str(account_id), str(new_uuid()))
    lines = [TranscriptEntry({"type": "user", "uuid": str(n), "text": "z" * KB}, None) for n in range(10)]

    await store.add(transcript, lines)
    await store.add(transcript, lines)

    assert 10 * KB < await kept(database, account_id) < 11 * KB
    async with database.transaction() as tx:
        await delete_entries(tx, transcript)
    assert await kept(database, account_id) == 0


async def test_the_traffic_of_attempts_is_added_and_is_of_one_account(database: Database) -> None:
    run = await an_accepted_run(database)
    other = RunKey((await an_account(database, name="other")).account_id, run.run_id)
    _, workspaces = contents_of(database)
    async with database.transaction() as tx:
        await workspaces.reserve(tx, run, WorkspaceSpec(), {})

    await workspaces.record_traffic(run, [HostTraffic("b.test", 1, 2, 1)])
    await workspaces.record_traffic(run, [HostTraffic("b.test", 10, 20, 3), HostTraffic("a.test", 5, 0, 1)])
    await workspaces.record_traffic(run, [])

    assert await workspaces.traffic(run.account_id, [run.run_id]) == {
        run.run_id: [HostTraffic("a.test", 5, 0, 1), HostTraffic("b.test", 11, 22, 4)]
    }
    assert await workspaces.traffic(other.account_id, [run.run_id]) == {run.run_id: []}


async def test_deleting_a_run_frees_its_storage_and_keeps_the_row(database: Database) -> None:
    run = await an_accepted_run(database, size=100 * KB)
    contents, workspaces = contents_of(database)
    async with database.transaction() as tx:
        await workspaces.reserve(tx, run, WorkspaceSpec(), {"a.txt": b"f" * 50 * KB})
    with pytest.raises(RunNotEnded):
        await contents.delete(run)
    await end(database, run, answer_text="y" * 10 * KB)
    assert await kept(database, run.account_id) > 170 * KB

    await contents.delete(run)
    await contents.delete(run)

    assert await kept(database, run.account_id) < KB
    async with database.snapshot() as reader:
        record = await find_run(reader, run)
        assert await stored_events(reader, run) == []
    assert record is not None
    assert record.contents_deleted_at is not None
    assert record.final is not None
    assert (record.final.content, record.status) == ("", "succeeded")
    with pytest.raises(FilesExpired):
        await workspaces.listing(run)


async def test_an_account_above_its_quota_can_store_no_more(database: Database) -> None:
    run = await an_accepted_run(database, size=100 * KB)
    quota = StorageQuota(database, 101 * KB)
    other = await an_account(database, "umbrella")

    async with database.transaction() as tx:
        await quota.require_room(tx, run.account_id)
        with pytest.raises(StorageFull, match=f"of its quota of {101 * KB}"):
            await quota.require_room(tx, run.account_id, 2 * KB)
        await quota.require_room(tx, other.account_id, 2 * KB)
        await StorageQuota(database, None).require_room(tx, run.account_id, 2**40)


async def test_concurrent_compaction_changes_no_sum(database: Database) -> None:
    run, sums = await an_accepted_run(database, size=KB), "SELECT sum(bytes)::int FROM storage_changes"
    change = "INSERT INTO storage_changes (owner, bytes) SELECT :owner, 1 FROM generate_series(1, 500)"
    await execute(database, change, owner=str(run.account_id))
    before, quota = await scalar(database, sums), StorageQuota(database, None)

    await asyncio.gather(quota.compact(), quota.compact())

    assert await scalar(database, sums) == before
    assert await scalar(database, "SELECT count(*) FROM storage_changes") < 10


async def test_contents_are_deleted_after_their_time_by_two_servers_at_once(database: Database) -> None:
    runs = [await an_accepted_run(database, size=KB, run_id=f"run-{n}") for n in range(25)]
    for run in runs[:-1]:
        await end(database, run)
    one, _ = contents_of(database, keep=Retention(contents_days=0))
    other, _ = contents_of(database, keep=Retention(contents_days=0))
    later, _ = contents_of(database, keep=Retention(contents_days=1))

    assert await later.delete_old() == 0
    deleted = [*await asyncio.gather(one.delete_old(), other.delete_old()), await one.delete_old()]

    assert sum(deleted) == 24
    async with database.snapshot() as reader:
        unfinished = await find_run(reader, runs[-1])
    assert unfinished is not None
    assert unfinished.contents_deleted_at is None
