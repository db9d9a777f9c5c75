"""SQL for workspaces and their files."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.ids import AccountId, RunId, RunKey
from app.platform.db import Reader, Transaction
from app.platform.postgres.statements import is_one_of
from app.platform.storage.repository import earlier_now
from app.workspaces.records import (
    FoundFile,
    HostTraffic,
    KeptState,
    StoredFile,
    WorkspaceRecord,
)
from app.workspaces.tables import file_contents, workspace_files, workspace_traffic, workspaces


async def insert_workspace(tx: Transaction, run: RunKey, *, keep: timedelta) -> None:
    """Insert the workspace of a new run."""
    values = {"harvested": False, "truncated": False, "expires_at": sa.func.now() + keep}
    await tx.execute(sa.insert(workspaces).values(account_id=run.account_id, run_id=run.run_id, **values))


async def find_workspace(reader: Reader, run: RunKey) -> WorkspaceRecord | None:
    """The workspace of a run."""
    columns = (workspaces.c.harvested, workspaces.c.truncated, workspaces.c.expires_at)
    expired = (workspaces.c.expires_at <= sa.func.now()).label("expired")
    statement = sa.select(*columns, expired).where(_is(workspaces, run))
    row = (await reader.execute(statement)).mappings().one_or_none()
    return None if row is None else WorkspaceRecord(**row)


async def record_outputs_collected(
    tx: Transaction, run: RunKey, *, truncated: bool, is_state: bool, keep: timedelta
) -> None:
    """Mark the run's outputs as stored; its files expire after `keep`.

    `is_state`: they are all that the next turn of its conversation begins with.
    """
    values = {
        "harvested": True,
        "truncated": truncated,
        "is_state": is_state,
        "expires_at": sa.func.now() + keep,
    }
    await tx.execute(sa.update(workspaces).where(_is(workspaces, run)).values(**values))


async def list_files(reader: Reader, run: RunKey) -> list[StoredFile]:
    """Every file of a run, ordered by path, without contents."""
    columns = [workspace_files.c[field.name] for field in fields(StoredFile)]
    statement = sa.select(*columns).where(_is(workspace_files, run)).order_by(workspace_files.c.path)
    return [StoredFile(**row) for row in (await reader.execute(statement)).mappings()]


async def find_file(reader: Reader, run: RunKey, path: str) -> FoundFile | None:
    """One file."""
    found = await _find_files(reader, run, workspace_files.c.path == path)
    return found[0] if found else None


async def find_uploads(reader: Reader, run: RunKey) -> list[FoundFile]:
    """The files uploaded with a run."""
    return await _find_files(reader, run, workspace_files.c.origin == "uploaded")


async def find_kept_files(reader: Reader, run: RunKey) -> list[FoundFile]:
    """All files that a run has left, for a later turn."""
    return await _find_files(reader, run, sa.true())


async def find_state_before(reader: Reader, run: RunKey) -> KeptState | None:
    """The last state of the files in the conversation before a run, on its branch."""
    return await _find_state(reader, run.account_id, run_id=run.run_id, state_key=None)


async def find_state_of_end_user(reader: Reader, run: RunKey) -> KeptState | None:
    """What the run started last for the same end user with the same graph, besides this one, has left."""
    row = (await reader.execute(_LAST_STATE_OF_END_USER, run._asdict())).one_or_none()
    return None if row is None else KeptState(RunId(row.run_id), row.expired)


async def find_current_state(reader: Reader, account_id: AccountId, state_key: str) -> KeptState | None:
    """The last state of the files of a conversation, on its current branch."""
    return await _find_state(reader, account_id, run_id=None, state_key=state_key)


async def upsert_files(tx: Transaction, run: RunKey, files: Iterable[tuple[StoredFile, bytes]]) -> None:
    """Store files with their contents, or nothing for those that are shared or outside the database.

    They replace those with the same paths.
    """
    rows = [{**run._asdict(), **asdict(file), "content": content} for file, content in files]
    insert_ = postgresql.insert(workspace_files)
    key = ["account_id", "run_id", "path"]
    values = {column: insert_.excluded[column] for column in _REPLACED}
    if rows:
        await tx.execute(insert_.on_conflict_do_update(index_elements=key, set_=values), rows)


async def lock_contents(tx: Transaction, account_id: AccountId, hashes: Iterable[str]) -> set[str]:
    """Those of these shared contents that are stored; none is deleted before the transaction ends."""
    is_named = sa.and_(_contents.account_id == account_id, is_one_of(_contents.sha256, hashes))
    # In one order, here and where they are deleted: no deadlock.
    statement = sa.select(_contents.sha256).where(is_named).order_by(_contents.sha256)
    return set((await tx.execute(statement.with_for_update(key_share=True, read=True))).scalars())


async def insert_contents(tx: Transaction, account_id: AccountId, contents: Mapping[str, bytes]) -> None:
    rows = [
        {"account_id": account_id, "sha256": sha256, "content": each} for sha256, each in contents.items()
    ]
    insert_ = postgresql.insert(file_contents)
    # Another transaction may have stored one since: the update locks it.
    same = {"sha256": insert_.excluded.sha256}
    await tx.execute(insert_.on_conflict_do_update(index_elements=["account_id", "sha256"], set_=same), rows)


async def delete_files_except(tx: Transaction, run: RunKey, paths: Collection[str]) -> None:
    """Delete all other files of a run."""
    # One array parameter: a statement has at most 32,767 parameters.
    others = workspace_files.c.path != sa.all_(sa.literal(list(paths), postgresql.ARRAY(sa.Text)))
    await tx.execute(sa.delete(workspace_files).where(_is(workspace_files, run), others))


async def delete_files(tx: Transaction, runs: Sequence[RunKey]) -> None:
    """Delete the files of runs and mark their workspaces as expired."""
    values = {"emptied": True, "expires_at": sa.func.least(workspaces.c.expires_at, sa.func.now())}
    # All workspaces before any file, and all files at once, as where they expire: no deadlock.
    await tx.execute(sa.update(workspaces).where(_are(workspaces, runs)).values(**values))
    await tx.execute(sa.delete(workspace_files).where(_are(workspace_files, runs)))


async def expire_early(tx: Transaction) -> None:
    """Let files expire that their accounts keep for less than their runs' graphs do."""
    await tx.execute(_EXPIRE_EARLY)


async def delete_expired_files(tx: Transaction, *, until: datetime, most: int) -> int:
    """Delete the files of expired workspaces; returns of how many."""
    due = (
        sa.select(workspaces.c.account_id, workspaces.c.run_id)
        .where(~workspaces.c.emptied, workspaces.c.expires_at <= earlier_now(until))
        .order_by(workspaces.c.expires_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    found = [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in await tx.execute(due)]
    if found:
        await delete_files(tx, found)
    return len(found)


async def add_traffic(tx: Transaction, run: RunKey, traffic: Sequence[HostTraffic]) -> None:
    """Add what an attempt's commands have exchanged to what those of earlier ones have."""
    rows = [{"account_id": run.account_id, "run_id": run.run_id, **asdict(host)} for host in traffic]
    statement = postgresql.insert(workspace_traffic).values(rows)
    counted = ("sent_bytes", "received_bytes", "connections")
    sums = {name: workspace_traffic.c[name] + statement.excluded[name] for name in counted}
    key = ["account_id", "run_id", "host"]
    await tx.execute(statement.on_conflict_do_update(index_elements=key, set_=sums))


async def find_traffic(
    reader: Reader, account_id: AccountId, run_ids: Sequence[RunId]
) -> dict[RunId, list[HostTraffic]]:
    """The traffic of these runs, by run and host."""
    table = workspace_traffic
    of_runs = table.c.run_id == sa.any_(sa.literal(list(run_ids), postgresql.ARRAY(sa.Text)))
    statement = sa.select(table).where(table.c.account_id == account_id, of_runs).order_by(table.c.host)
    found: dict[RunId, list[HostTraffic]] = {run_id: [] for run_id in run_ids}
    for row in await reader.execute(statement):
        found[row.run_id].append(HostTraffic(row.host, row.sent_bytes, row.received_bytes, row.connections))
    return found


async def _find_files(reader: Reader, run: RunKey, which: sa.ColumnElement[bool]) -> list[FoundFile]:
    outside = sa.case(
        (sa.and_(workspace_files.c.bytes > 0, sa.func.length(_CONTENT) == 0), workspace_files.c.sha256)
    )
    columns = (workspace_files.c.path, _CONTENT.label("content"), workspace_files.c.is_executable)
    statement = sa.select(*columns, outside.label("outside")).select_from(_WITH_CONTENTS)
    rows = (await reader.execute(statement.where(_is(workspace_files, run), which))).mappings()
    return [FoundFile(**row) for row in rows]


async def _find_state(
    reader: Reader, account_id: AccountId, *, run_id: RunId | None, state_key: str | None
) -> KeptState | None:
    parameters = {"account_id": account_id, "run_id": run_id, "state_key": state_key}
    row = (await reader.execute(_LAST_STATE, parameters)).one_or_none()
    return None if row is None else KeptState(RunId(row.run_id), row.expired)


# From a point of a conversation back over the points at which its branch, and then itself, was forked.
_LAST_STATE = sa.text(
    """
    WITH RECURSIVE start AS (
        SELECT state_key, session_id, turn - 1 AS turn, 0 AS forks FROM runs
         WHERE account_id = :account_id AND run_id = CAST(:run_id AS text)
         UNION ALL
        SELECT state_key, session_id, turns, 0 FROM sessions
         WHERE account_id = :account_id AND state_key = CAST(:state_key AS text)
    ), points AS (
        SELECT * FROM start
         UNION ALL
        SELECT earlier.state_key, earlier.session_id, earlier.turn, points.forks + 1
          FROM points
          LEFT JOIN conversation_branches AS branch
            ON branch.account_id = :account_id AND branch.session_id = points.session_id
          LEFT JOIN sessions AS conversation
            ON conversation.account_id = :account_id AND conversation.state_key = points.state_key
           -- Not one with the key of a deleted one.
           AND (conversation.session_id = points.session_id OR branch.state_key = points.state_key)
          JOIN runs AS earlier
            ON earlier.account_id = :account_id
           AND earlier.run_id = CASE WHEN branch.is_forked THEN branch.forked_from_run
                                     ELSE conversation.forked_at END
    )
    SELECT state.run_id, state.expires_at <= now() AS expired
      FROM points
     CROSS JOIN LATERAL (
           SELECT run_id, turn, expires_at FROM runs JOIN workspaces USING (account_id, run_id)
            WHERE account_id = :account_id AND runs.state_key = points.state_key
              AND runs.session_id = points.session_id AND runs.turn <= points.turn AND is_state
            ORDER BY turn DESC LIMIT 1) AS state
     ORDER BY points.forks LIMIT 1
    """
)

# The newest that is still there: the one after it may have been deleted with its conversation.
_LAST_STATE_OF_END_USER = sa.text(
    """
    WITH states AS NOT MATERIALIZED (
        SELECT earlier.run_id, earlier.created_at, expires_at <= now() AS expired
          FROM runs AS this
          JOIN runs AS earlier
            ON earlier.account_id = :account_id AND earlier.end_user = this.end_user
           AND earlier.graph_id = this.graph_id AND earlier.run_id <> this.run_id
          JOIN workspaces
            ON workspaces.account_id = :account_id AND workspaces.run_id = earlier.run_id AND is_state
         WHERE this.account_id = :account_id AND this.run_id = :run_id
    )
    (SELECT run_id, expired FROM states WHERE NOT expired ORDER BY created_at DESC, run_id DESC LIMIT 1)
     UNION ALL
    (SELECT run_id, expired FROM states WHERE expired LIMIT 1)
     LIMIT 1
    """
)

# Locked in no order, so those that another server has locked are skipped.
_EXPIRE_EARLY = sa.text(
    """
    WITH early AS (
        SELECT workspace.account_id, workspace.run_id, runs.ended_at + kept.time AS expires_at
          FROM accounts
         CROSS JOIN LATERAL make_interval(
               days => CAST(accounts.retention ->> 'workspaces_days' AS int)) AS kept (time)
          JOIN workspaces AS workspace ON workspace.account_id = accounts.id AND NOT workspace.emptied
          JOIN runs USING (account_id, run_id)
         WHERE workspace.expires_at > runs.ended_at + kept.time
           FOR UPDATE OF workspace SKIP LOCKED
    )
    UPDATE workspaces SET expires_at = early.expires_at FROM early
     WHERE workspaces.account_id = early.account_id AND workspaces.run_id = early.run_id
    """
)

_contents = file_contents.c
_WITH_CONTENTS = workspace_files.outerjoin(
    file_contents,
    sa.and_(
        _contents.account_id == workspace_files.c.account_id, _contents.sha256 == workspace_files.c.sha256
    ),
)
_CONTENT = sa.func.coalesce(_contents.content, workspace_files.c.content)
_REPLACED = ("origin", "bytes", "sha256", "is_executable", "content")


def _is(table: Any, run: RunKey) -> Any:
    return sa.and_(table.c.account_id == run.account_id, table.c.run_id == run.run_id)


def _are(table: Any, runs: Sequence[RunKey]) -> Any:
    # Two array parameters: a statement has at most 32,767.
    accounts = sa.literal([run.account_id for run in runs], postgresql.ARRAY(sa.Uuid))
    ids = sa.literal([run.run_id for run in runs], postgresql.ARRAY(sa.Text))
    given = sa.func.unnest(accounts, ids).table_valued("account_id", "run_id").render_derived()
    return sa.tuple_(table.c.account_id, table.c.run_id).in_(sa.select(given.c.account_id, given.c.run_id))
