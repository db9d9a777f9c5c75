"""What a branch leaves in the database, and on which branch a run executes."""

import asyncio
from contextlib import suppress
from uuid import UUID

import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.receipts.repository import sum_runs
from app.conversations.branching.records import InPlaceOf
from app.conversations.branching.repository import runs_with_messages
from app.conversations.history import ConversationHistory
from app.conversations.records import Conversation, TranscriptEntry
from app.conversations.repository import update_conversation
from app.conversations.transcript_store import TranscriptStore
from app.errors import Invalid
from app.executors.port import RunContext
from app.ids import RunId
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.platform.storage.service import StorageFull, StorageQuota
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.runs.conversations.branching import MOST_BRANCHES, TooManyBranches
from app.runs.conversations.repository import find_branch_runs, newest_run_of
from app.runs.conversations.service import (
    ConversationBusy,
    ConversationExists,
    ConversationNotFound,
    ConversationService,
    NothingToFork,
)
from app.runs.records import RunRecord
from tests.contracts.event_logs import a_relay
from tests.factories import an_account
from tests.integration.conversations import KEY, a_turn, conversations_over
from tests.integration.run_process import GRAPH, Executing
from tests.integration.run_service import OpenCore, a_request, caller_of
from tests.integration.statements import execute, rows, scalar
from tests.integration.test_lock_order import until_waiting


async def two_turns(database: Database, key: KeyRecord) -> Conversation:
    store = TranscriptStore(database)
    for run in ("r1", "r2"):
        conversation = await a_turn(database, key, run)
        lines = [{"type": "user", "uuid": f"{run}-{number}", "text": "x" * 100} for number in range(2)]
        await store.add(conversation.transcript, [TranscriptEntry(line, run) for line in lines])
    return conversation


async def lines_of(database: Database) -> dict[str, list[str]]:
    """The ids of the stored lines, by session."""
    statement = "SELECT session_id, array_agg(entry_uuid ORDER BY position) FROM session_entries GROUP BY 1"
    return {row[0]: row[1] for row in await rows(database, statement)}


async def fork(database: Database, key: KeyRecord, *, max_bytes: int, fails: bool = False) -> UUID:
    """Take the turn of the run r2; returns the branch."""
    store = TranscriptStore(database)
    history = ConversationHistory(store, tool_id_of=str)
    storage = StorageQuota(database, max_bytes)
    service = ConversationService(database, history, storage=storage, max_bytes=2**20)
    request = GraphRunRequest.of(
        graph_id=GRAPH, messages=[Message.of(role="user", content="x")], state_key=KEY
    )
    async with database.transaction() as tx:
        place = InPlaceOf(RunId("r2"))
        taken = await service.take_turn(tx, caller_of(key), KEY, request=request, place=place)
        if fails:
            raise LookupError
    return taken.conversation.session_id


async def test_a_branch_has_the_lines_before_the_run_and_stays_only_with_its_run(database: Database) -> None:
    key = await an_account(database)
    conversation = await two_turns(database, key)
    whole = {str(conversation.session_id): ["r1-0", "r1-1", "r2-0", "r2-1"]}

    with pytest.raises(LookupError):
        await fork(database, key, max_bytes=2**20, fails=True)
    assert await lines_of(database) == whole
    with pytest.raises(StorageFull):
        await fork(database, key, max_bytes=600)
    assert await lines_of(database) == whole
    branch = await fork(database, key, max_bytes=2**20)

    assert await lines_of(database) == {**whole, str(branch): ["r1-0", "r1-1"]}


async def test_a_run_executes_on_its_branch_wherever_the_conversation_continues(
    open_core: OpenCore, database: Database
) -> None:
    go_on, sessions = asyncio.Event(), []

    async def do(context: RunContext) -> None:
        if context.plan.conversation is None:
            await go_on.wait()
        else:
            sessions.append(context.plan.conversation.session_id)

    async with open_core(executor=Executing(do), places=1) as core:
        await core.start()
        queued = await core.start(state_key=KEY)
        await execute(database, "UPDATE sessions SET session_id = gen_random_uuid()")
        go_on.set()
        await core.service.wait(queued.key)

    assert queued.session_id is not None
    assert sessions == [queued.session_id]


async def test_a_conversation_has_a_bounded_number_of_branches(database: Database, key: KeyRecord) -> None:
    """More than a statement can have parameters are possible for its runs, not for its branches."""
    conversation = await two_turns(database, key)
    where = {"account_id": conversation.account_id, "state_key": KEY}
    branch_of = "INSERT INTO conversation_branches (account_id, state_key, session_id, is_forked, created_at)"

    async def fork_the_first() -> UUID:
        async with database.transaction() as tx:
            await update_conversation(tx, conversation, session_id=conversation.session_id)
        return await fork(database, key, max_bytes=2**20)

    first = await fork_the_first()
    async with database.transaction() as tx:
        copies = f"{branch_of} SELECT :account_id, :state_key, gen_random_uuid(), true, now()"
        await tx.execute(text(f"{copies} FROM generate_series(3, {MOST_BRANCHES - 1})"), where)
    last = await fork_the_first()
    with pytest.raises(TooManyBranches):
        await fork_the_first()

    lines = await lines_of(database)
    assert lines[str(first)] == lines[str(last)] == ["r1-0", "r1-1"]
    many = [f"r{number}" for number in range(32_768)]
    async with database.read() as reader:
        assert await sum_runs(reader, key.account_id, many) == {}
        found = await find_branch_runs(reader, key.account_id, many)
    assert {run.run_id for run in found} == {"r1", "r2"}


@pytest.mark.parametrize("has_next", [False, True])
async def test_no_copy_is_stored_of_a_conversation_that_was_deleted_meanwhile(
    database: Database, key: KeyRecord, *, has_next: bool
) -> None:
    await two_turns(database, key)
    service = conversations_over(database)
    async with database.transaction() as tx:
        await service.erase(tx, key.account_id, KEY)
        forking = asyncio.create_task(service.fork(key.account_id, KEY, at=None, new_key=None))
        await until_waiting(database, [forking])
    if has_next:
        await a_turn(database, key, "r3")

    with pytest.raises((ConversationNotFound, NothingToFork)):
        await forking
    assert await lines_of(database) == {}
    assert await scalar(database, "SELECT count(*) FROM sessions") == has_next


async def test_a_copy_ends_with_the_run_where_it_was_made(database: Database, key: KeyRecord) -> None:
    conversation = await two_turns(database, key)
    store, service = TranscriptStore(database), conversations_over(database)
    for run in ("r3", "r4"):
        await a_turn(database, key, run)
    await store.add(conversation.transcript, [TranscriptEntry({"type": "mode", "uuid": "r3-0"}, "r3")])

    copies = [await service.fork(key.account_id, KEY, at=at, new_key=at) for at in ("r1", "r2")]

    lines = await lines_of(database)
    assert [lines[str(copy.session_id)] for copy in copies] == [
        ["r1-0", "r1-1"],
        ["r1-0", "r1-1", "r2-0", "r2-1"],
    ]
    assert [(copy.forked_from, copy.forked_at, copy.turns) for copy in copies] == [
        (KEY, "r1", 0),
        (KEY, "r2", 0),
    ]
    for without_message in ("r3", "r4", "r5", None):
        with pytest.raises(NothingToFork):
            await service.fork(key.account_id, KEY, at=without_message, new_key=None)
    assert await lines_of(database) == lines


async def test_a_copy_whose_key_is_taken_is_not_stored(database: Database, key: KeyRecord) -> None:
    await two_turns(database, key)
    before = await lines_of(database)

    with pytest.raises(ConversationExists):
        await conversations_over(database).fork(key.account_id, KEY, at=None, new_key=KEY)
    assert await lines_of(database) == before


async def test_forks_on_two_servers_while_the_conversation_is_deleted(
    open_core: OpenCore, database: Database, redis_url: str
) -> None:
    """Each is accepted or refused as a whole, and what is accepted runs on a branch of its own."""
    places: dict[str, UUID] = {}

    async def do(context: RunContext) -> None:
        assert context.plan.conversation is not None
        places[context.plan.run.run_id] = context.plan.conversation.session_id

    async with (
        a_relay(redis_url) as first,
        a_relay(redis_url) as second,
        open_core(executor=Executing(do), relay=first) as here,
        open_core(executor=Executing(do), relay=second) as there,
    ):
        key = await an_account(database)
        caller = caller_of(key)
        forks = 0
        for repetition in range(4):
            start = here.start(state_key=KEY)
            replaced = await start
            await here.service.wait(replaced.key)
            request = a_request(state_key=KEY, fork_from=replaced.key.run_id)
            posts = [each.service.start(caller, request, request_id=None) for each in (here, there) * 2]
            deleting = [conversations_over(database).delete(caller, KEY)] if repetition % 2 else []
            found = await asyncio.gather(*posts, *deleting, return_exceptions=True)
            started = [each for each in found if isinstance(each, RunRecord)]
            refused = [each for each in found if isinstance(each, BaseException)]
            assert {type(each) for each in refused} <= {Invalid, ConversationBusy}
            await asyncio.gather(*(here.service.wait(run.key) for run in started))
            forks += len(started)
            executed = [places[run.key.run_id] for run in started if run.key.run_id in places]
            assert len(set(executed)) == len(executed)
            with suppress(ConversationNotFound):
                branches = await conversations_over(database).list_branches(key.account_id, KEY)
                assert len(branches) == len(started) + 1
                assert sum(branch.is_current for branch in branches) == 1
                await conversations_over(database).delete(caller, KEY)
    assert forks >= 8
    assert await lines_of(database) == {}
    assert await scalar(database, "SELECT count(*) FROM conversation_branches") == 0


async def test_runs_belong_to_a_conversation_by_their_branch_and_follow_each_other_by_their_turns(
    database: Database,
) -> None:
    """Whatever their times are: those of two transactions or clocks say nothing."""
    key, conversations = await an_account(database), conversations_over(database)
    await a_turn(database, key, "deleted-1")
    await a_turn(database, key, "deleted-2")
    await conversations.delete(caller_of(key), KEY)
    await a_turn(database, key, "r1")
    await a_turn(database, key, "r2")
    later = "UPDATE runs SET created_at = now() + interval '1 min' WHERE run_id IN ('deleted-2', 'r1')"
    async with database.transaction() as tx:
        await tx.execute(text(later))
        await tx.execute(text("UPDATE sessions SET created_at = now() + interval '30 s'"))

    (branch,) = await conversations.list_branches(key.account_id, KEY)
    async with database.snapshot() as reader:
        newest = await newest_run_of(reader, key.account_id, KEY)
    chats, _ = await conversations.list_chats(key.principal, GRAPH, PageRequest(9))

    assert list(branch.runs) == ["r1", "r2"]
    assert newest is not None
    assert newest.key.run_id == "r2"
    assert [chat.state_key for chat in chats] == [KEY]


async def test_the_database_knows_when_forks_and_branches_began(database: Database) -> None:
    key, conversations = await an_account(database), conversations_over(database)
    await two_turns(database, key)
    before = await scalar(database, "SELECT now()")

    await fork(database, key, max_bytes=2**20)
    copy = await conversations.fork(key.account_id, KEY, at=None, new_key="copy")

    _, branch = await conversations.list_branches(key.account_id, KEY)
    after = await scalar(database, "SELECT now()")
    assert before < branch.created_at < copy.created_at < after


async def test_a_run_of_the_release_before_is_on_the_branch_that_is_current(database: Database) -> None:
    """That one does not name the branch of a run, and executes it on the current one."""
    key, conversations = await an_account(database), conversations_over(database)
    await two_turns(database, key)
    await fork(database, key, max_bytes=2**20)
    columns = "api_key_id, graph_id, model, status, request_hash, state_key, created_at"
    await execute(
        database,
        f"INSERT INTO runs (account_id, run_id, turn, {columns})"  # noqa: S608 - constants
        f" SELECT account_id, 'old', 4, {columns} FROM runs WHERE run_id = 'r1'",
    )

    first, second = await conversations.list_branches(key.account_id, KEY)
    assert (list(first.runs), list(second.runs)) == (["r1", "r2"], ["old"])


async def test_the_run_of_a_message_is_found_by_its_ids_alone(database: Database, key: KeyRecord) -> None:
    """Also beside lines that PostgreSQL cannot read as they are, and in lines of either executor."""
    transcript = (await two_turns(database, key)).transcript
    lines = {
        "r1": [
            r'{"type": "user", "message": {"id": "m0", "content": "\u0000 \"assistant\""}}',
            r'{"type": "assistant", "message": {"id": "m1", "content": [{"text": "\ud800"}]}}',
        ],
        "r2": [
            '{"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t2"}]}}',
            '{"type": "assistant", "message": {"id": "m2", "content": "?"}}',
            '{"type": "assistant", "message": "damaged"}',
        ],
    }
    insert = "INSERT INTO session_entries (project_key, session_id, subpath, run_id, entry)"
    values = "VALUES (:project_key, :session_id, :subpath, :run_id, CAST(:entry AS json))"
    async with database.transaction() as tx:
        for run_id, entries in lines.items():
            for entry in entries:
                row = {**transcript._asdict(), "run_id": run_id, "entry": entry}
                await tx.execute(text(f"{insert} {values}"), row)

    runs = dict.fromkeys((RunId("r1"), RunId("r2")), UUID(transcript.session_id))
    async with database.snapshot() as reader:
        found = await runs_with_messages(reader, transcript.project_key, runs, ["m0", "m1", "m2", "t2", "x"])
    assert found == {"m1": "r1", "m2": "r2", "t2": "r2"}
