"""SQL for workspaces and their files."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any

from sqlalchemy import Text, all_, and_, any_, delete, func, insert, literal, select, tuple_, update
from sqlalchemy.dialects import postgresql

from app.ids import AccountId, RunId, RunKey
from app.platform.db import Reader, Transaction
from app.workspaces.records import HostTraffic, StoredFile, Upload, WorkspaceRecord
from app.workspaces.tables import workspace_files, workspace_traffic, workspaces


async def insert_workspace(tx: Transaction, run: RunKey, *, keep: timedelta) -> None:
    """Insert the workspace of a new run."""
    values = {"harvested": False, "truncated": False, "expires_at": func.now() + keep}
    await tx.execute(insert(workspaces).values(account_id=run.account_id, run_id=run.run_id, **values))


async def find_workspace(reader: Reader, run: RunKey) -> WorkspaceRecord | None:
    """The workspace of a run."""
    columns = (workspaces.c.harvested, workspaces.c.truncated, workspaces.c.expires_at)
    expired = (workspaces.c.expires_at <= func.now()).label("expired")
    statement = select(*columns, expired).where(_is(workspaces, run))
    row = (await reader.execute(statement)).mappings().one_or_none()
    return None if row is None else WorkspaceRecord(**row)


async def record_outputs_collected(tx: Transaction, run: RunKey, *, truncated: bool, keep: timedelta) -> None:
    """Mark the run's outputs as stored; its files expire after `keep`."""
    values = {"harvested": True, "truncated": truncated, "expires_at": func.now() + keep}
    await tx.execute(update(workspaces).where(_is(workspaces, run)).values(**values))


async def list_files(reader: Reader, run: RunKey) -> list[StoredFile]:
    """Every file of a run, ordered by path, without contents."""
    columns = [workspace_files.c[field.name] for field in fields(StoredFile)]
    statement = select(*columns).where(_is(workspace_files, run)).order_by(workspace_files.c.path)
    return [StoredFile(**row) for row in (await reader.execute(statement)).mappings()]


async def find_content(reader: Reader, run: RunKey, path: str) -> bytes | None:
    """The bytes of one file."""
    statement = select(workspace_files.c.content).where(
        _is(workspace_files, run), workspace_files.c.path == path
    )
    return (await reader.execute(statement)).scalar_one_or_none()


async def find_uploads(reader: Reader, run: RunKey) -> list[Upload]:
    """The files uploaded with a run."""
    columns = (workspace_files.c.path, workspace_files.c.content)
    statement = select(*columns).where(_is(workspace_files, run), workspace_files.c.origin == "uploaded")
    return [Upload(row.path, row.content) for row in await reader.execute(statement)]


async def upsert_file(tx: Transaction, run: RunKey, file: StoredFile, content: bytes) -> None:
    """Store a file, replacing one with the same path."""
    values = {"origin": file.origin, "bytes": file.bytes, "sha256": file.sha256, "content": content}
    statement = postgresql.insert(workspace_files).values(
        account_id=run.account_id, run_id=run.run_id, path=file.path, **values
    )
    key = ["account_id", "run_id", "path"]
    await tx.execute(statement.on_conflict_do_update(index_elements=key, set_=values))


async def delete_files_except(tx: Transaction, run: RunKey, paths: Collection[str]) -> None:
    """Delete all other files of a run."""
    # One array parameter: a statement has at most 32,767 parameters.
    others = workspace_files.c.path != all_(literal(list(paths), postgresql.ARRAY(Text)))
    await tx.execute(delete(workspace_files).where(_is(workspace_files, run), others))


async def delete_files(tx: Transaction, run: RunKey) -> None:
    """Delete the files of a run and mark its workspace as expired."""
    await tx.execute(delete(workspace_files).where(_is(workspace_files, run)))
    values = {"emptied": True, "expires_at": func.least(workspaces.c.expires_at, func.now())}
    await tx.execute(update(workspaces).where(_is(workspaces, run)).values(**values))


async def delete_expired_files(tx: Transaction, *, most: int) -> int:
    """Delete the files of expired workspaces; returns of how many."""
    due = (
        select(workspaces.c.account_id, workspaces.c.run_id)
        .where(~workspaces.c.emptied, workspaces.c.expires_at <= func.now())
        .order_by(workspaces.c.expires_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    found = [(row.account_id, row.run_id) for row in await tx.execute(due)]
    if found:
        of_files = tuple_(workspace_files.c.account_id, workspace_files.c.run_id).in_(found)
        of_workspaces = tuple_(workspaces.c.account_id, workspaces.c.run_id).in_(found)
        await tx.execute(delete(workspace_files).where(of_files))
        await tx.execute(update(workspaces).where(of_workspaces).values(emptied=True))
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
    of_runs = table.c.run_id == any_(literal(list(run_ids), postgresql.ARRAY(Text)))
    statement = select(table).where(table.c.account_id == account_id, of_runs).order_by(table.c.host)
    found: dict[RunId, list[HostTraffic]] = {run_id: [] for run_id in run_ids}
    for row in await reader.execute(statement):
        found[row.run_id].append(HostTraffic(row.host, row.sent_bytes, row.received_bytes, row.connections))
    return found


def _is(table: Any, run: RunKey) -> Any:
    return and_(table.c.account_id == run.account_id, table.c.run_id == run.run_id)
