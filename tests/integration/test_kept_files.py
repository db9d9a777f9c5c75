"""The files of a conversation in the database: which turn begins with which, and what is stored of them."""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.errors import Unavailable
from app.ids import AccountId, RunId, RunKey
from app.platform.db import Database, DatabaseUnavailable, StatementFailed, Transaction
from app.platform.objects.service import Objects
from app.platform.objects.storage import ContentsUnavailable
from app.platform.storage.repository import stored_bytes
from app.requests.outcome import FileChange
from app.workspaces.notices import FILES_LOST
from app.workspaces.repository import delete_files, insert_contents, lock_contents
from app.workspaces.service import Workspaces
from app.workspaces.spec import WorkspaceSpec
from app.workspaces.workspace import Workspace
from tests.factories import an_account
from tests.integration.conversations import KEY, a_turn, conversations_over
from tests.integration.statements import execute, scalar

SPEC = WorkspaceSpec(keep="conversation")


async def a_kept_turn(database: Database, key: KeyRecord, run_id: str) -> RunKey:
    await a_turn(database, key, run_id)
    run = RunKey(key.account_id, RunId(run_id))
    async with database.transaction() as tx:
        await Workspaces(database, []).reserve(tx, run, SPEC, {})
    return run


async def opened(
    database: Database, run: RunKey, directory: Path, *, spec: WorkspaceSpec = SPEC
) -> Workspace:
    """The workspace of a run, with its files in an empty directory."""
    workspace = await Workspaces(database, []).open(run, spec, in_conversation=True, has_end_user=True)
    populate(workspace, directory)
    return workspace


def populate(workspace: Workspace, directory: Path) -> None:
    directory.mkdir()
    workspace.populate(directory)


def contents(workspace: Workspace) -> Mapping[str, str]:
    return {
        str(path.relative_to(workspace.path)): path.read_text()
        for path in workspace.path.rglob("*")
        if path.is_file()
    }


async def left(database: Database, run: RunKey, workspace: Workspace, **files: str) -> None:
    """Store what a run leaves, which has written these files."""
    for path, content in files.items():
        (workspace.path / path).write_text(content)
    await Workspaces(database, []).store_outputs(run, 0, workspace=workspace)


async def test_a_turn_begins_with_the_last_state_that_was_stored_and_so_does_another_attempt(
    database: Database, tmp_path: Path
) -> None:
    key = await an_account(database)
    first = await a_kept_turn(database, key, "r1")
    await left(database, first, await opened(database, first, tmp_path / "1"), a="1", b="same")
    # Its process was killed before anything was stored.
    await a_kept_turn(database, key, "r2")
    third = await a_kept_turn(database, key, "r3")

    workspace = await opened(database, third, tmp_path / "3")
    begun = contents(workspace)
    await left(database, third, workspace, a="3")
    again = await opened(database, third, tmp_path / "4")
    current = await conversations_over(database).run_with_files(key.account_id, KEY)

    assert begun == contents(again) == {"a": "1", "b": "same"}
    assert current == third
    assert await scalar(database, "SELECT count(*) FROM file_contents") == 3


async def test_without_a_conversation_or_where_nothing_is_kept_a_turn_begins_with_nothing(
    database: Database, tmp_path: Path
) -> None:
    key = await an_account(database)
    first = await a_kept_turn(database, key, "r1")
    await left(database, first, await opened(database, first, tmp_path / "1"), a="1")
    second = await a_kept_turn(database, key, "r2")

    none = await opened(database, second, tmp_path / "2", spec=WorkspaceSpec())
    files = Workspaces(database, [])
    outside = await files.open(second, SPEC, in_conversation=False, has_end_user=True)
    populate(outside, tmp_path / "3")

    assert (contents(none), contents(outside)) == ({}, {})


async def test_files_that_have_expired_are_missed_and_older_ones_do_not_come_back(
    database: Database, tmp_path: Path
) -> None:
    key = await an_account(database)
    first = await a_kept_turn(database, key, "r1")
    await left(database, first, await opened(database, first, tmp_path / "1"), a="old")
    second = await a_kept_turn(database, key, "r2")
    await left(database, second, await opened(database, second, tmp_path / "2"), a="new")
    await execute(database, "UPDATE workspaces SET expires_at = now() WHERE run_id = 'r2'")
    third = await a_kept_turn(database, key, "r3")

    workspace = await opened(database, third, tmp_path / "3")
    warned = await Workspaces(database, []).store_outputs(third, 0, workspace=workspace)

    assert (contents(workspace), workspace.has_expired) == ({}, True)
    assert [event.type for event in warned] == ["warning"]


async def test_a_run_begins_with_the_files_of_its_end_user_and_graph_and_no_others(
    database: Database, tmp_path: Path
) -> None:
    key, other = await an_account(database), await an_account(database, "umbrella")
    spec = WorkspaceSpec(keep="end_user")
    runs = {run_id: await a_kept_turn(database, key, run_id) for run_id in ("r1", "r2", "r3", "r4", "r5")}
    runs["r6"] = await a_kept_turn(database, other, "r6")
    await execute(database, "UPDATE runs SET end_user = 'ann' WHERE run_id IN ('r1', 'r2', 'r5', 'r6')")
    await execute(database, "UPDATE runs SET end_user = 'bob' WHERE run_id = 'r3'")
    await execute(database, "UPDATE runs SET graph_id = 'claude_agents:other' WHERE run_id = 'r5'")
    first = runs.pop("r1")
    await left(database, first, await opened(database, first, tmp_path / "1", spec=spec), memory="1")

    found = {
        run_id: contents(await opened(database, run, tmp_path / run_id, spec=spec))
        for run_id, run in runs.items()
    }

    assert found.pop("r2") == {"memory": "1"}
    assert list(found.values()) == [{}, {}, {}, {}]


async def test_what_an_end_user_has_is_not_lost_with_one_conversation(
    database: Database, tmp_path: Path
) -> None:
    key = await an_account(database)
    spec = WorkspaceSpec(keep="end_user")
    runs = [await a_kept_turn(database, key, f"r{number}") for number in range(3)]
    await execute(database, "UPDATE runs SET end_user = 'ann'")
    for number, run in enumerate(runs[:2]):
        workspace = await opened(database, run, tmp_path / str(number), spec=spec)
        await left(database, run, workspace, memory=str(number))
    newest = await opened(database, runs[2], tmp_path / "newest", spec=spec)
    async with database.transaction() as tx:
        await delete_files(tx, [runs[1]])
    before = await opened(database, runs[2], tmp_path / "before", spec=spec)
    await execute(database, "UPDATE workspaces SET expires_at = now()")
    none = await opened(database, runs[2], tmp_path / "none", spec=spec)

    assert [contents(each) for each in (newest, before, none)] == [{"memory": "1"}, {"memory": "0"}, {}]
    assert [each.has_expired for each in (newest, before, none)] == [False, False, True]


async def test_accounts_share_neither_keys_nor_contents(database: Database, tmp_path: Path) -> None:
    key, other = await an_account(database), await an_account(database, "umbrella")
    first = await a_kept_turn(database, key, "r1")
    await left(database, first, await opened(database, first, tmp_path / "1"), a="x" * 1000, b="x" * 1000)

    foreign = await opened(database, await a_kept_turn(database, other, "r2"), tmp_path / "2")

    assert contents(foreign) == {}
    async with database.transaction() as tx:
        sha256 = await scalar(database, "SELECT sha256 FROM file_contents")
        assert await lock_contents(tx, other.account_id, [sha256]) == set()
        before = await stored_bytes(tx, key.account_id)
        await delete_files(tx, [first])
        # Equal files were stored once.
        assert before - await stored_bytes(tx, key.account_id) == 1000


async def test_no_content_is_stored_under_the_hash_of_another(database: Database) -> None:
    key = await an_account(database)
    with pytest.raises(StatementFailed):
        async with database.transaction() as tx:
            await insert_contents(tx, key.account_id, {"0" * 64: b"x"})


@pytest.mark.parametrize("is_deleted_first", [True, False])
async def test_a_content_that_is_deleted_and_stored_at_once_is_there(
    database: Database, tmp_path: Path, *, is_deleted_first: bool
) -> None:
    key = await an_account(database)
    first = await a_kept_turn(database, key, "r1")
    await left(database, first, await opened(database, first, tmp_path / "1"), a="same")
    await execute(database, "UPDATE workspaces SET expires_at = now()")
    second = await a_kept_turn(database, key, "r2")
    workspace = await opened(database, second, tmp_path / "2")

    async def delete() -> None:
        async with database.transaction() as tx:
            await delete_files(tx, [first])

    async def store() -> None:
        await left(database, second, workspace, b="same")

    one, other = (delete, store) if is_deleted_first else (store, delete)
    async with database.transaction() as tx:
        # Both wait for the content, in this order.
        await tx.execute(text("SELECT FROM file_contents FOR UPDATE"))
        waiting = [asyncio.create_task(one())]
        done, _ = await asyncio.wait(waiting, timeout=0.2)
        waiting.append(asyncio.create_task(other()))
        more, _ = await asyncio.wait(waiting, timeout=0.2)
        assert not done | more
    await asyncio.gather(*waiting)

    assert await Workspaces(database, []).read(second, "b") == b"same"
    assert await scalar(database, "SELECT count(*) FROM workspace_files") == 1


async def test_more_than_the_limits_allow_is_not_kept_and_half_of_it_neither(
    database: Database, tmp_path: Path
) -> None:
    key = await an_account(database)
    spec = WorkspaceSpec(keep="conversation", max_files=2)
    first = await a_kept_turn(database, key, "r1")
    await left(database, first, await opened(database, first, tmp_path / "1"), a="1", b="1")
    second = await a_kept_turn(database, key, "r2")
    workspace = await opened(database, second, tmp_path / "2", spec=spec)
    (workspace.path / "a").write_text("2")
    (workspace.path / "c").write_text("2")

    changed, warned = await Workspaces(database, []).store_outputs(second, 0, workspace=workspace)
    third = await a_kept_turn(database, key, "r3")

    assert warned.model_dump(include={"code", "names"}) == {"code": "files_not_kept", "names": ["c"]}
    diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n\\ No newline at end of file"
    assert changed.model_dump()["files"][0] == FileChange(path="a", change="changed", diff=diff).model_dump()
    assert contents(await opened(database, third, tmp_path / "3")) == {"a": "1", "b": "1"}


class AwayObjects(Objects):
    """Contents that cannot be stored for some times."""

    def __init__(self, error: Unavailable) -> None:
        super().__init__()
        self.error, self.times = error, 20

    async def hold(self, tx: Transaction, account_id: AccountId, hashes: Collection[str]) -> None:
        self.times -= 1
        if self.times:
            raise self.error
        await super().hold(tx, account_id, hashes)


@pytest.mark.parametrize(
    ("error", "is_kept"), [(DatabaseUnavailable(), True), (ContentsUnavailable(), False)]
)
async def test_files_wait_for_the_database_without_which_the_run_does_not_end(
    database: Database, tmp_path: Path, error: Unavailable, *, is_kept: bool
) -> None:
    first = await a_kept_turn(database, await an_account(database), "r1")
    workspace = await opened(database, first, tmp_path / "1")
    (workspace.path / "a").write_text("1")

    files = Workspaces(database, [], AwayObjects(error), retry_s=0)
    events = await files.store_outputs(first, 0, workspace=workspace)

    assert (FILES_LOST in events) != is_kept
    assert [file.path for file in (await files.listing(first)).files] == (["a"] if is_kept else [])
