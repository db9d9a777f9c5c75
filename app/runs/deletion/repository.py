"""SQL for deleting the contents of runs; the run rows and their receipts stay."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Table, and_, delete, func, null, select, tuple_, update

from app.ids import AccountId, RunId, RunKey
from app.platform.db import Transaction
from app.platform.storage.records import KEPT_FOR_EVER, Retention, RetentionKind
from app.platform.storage.repository import overdue
from app.requests.outcome import GraphFinal
from app.runs.evidence.repository import delete_evidence
from app.runs.evidence.tables import FIRST_PIECES, run_evidence
from app.runs.records import titling_run
from app.runs.tables import run_events, runs
from app.runs.waits.repository import delete_calls
from app.workspaces.repository import delete_files


async def lock_ended_run(tx: Transaction, key: RunKey) -> bool | None:
    """Lock a run's row and return whether it has ended; None if there is no such run."""
    statement = (
        select(runs.c.ended_at.is_not(None))
        .where(runs.c.account_id == key.account_id, runs.c.run_id == key.run_id)
        .with_for_update()
    )
    ended: bool | None = (await tx.execute(statement)).scalar_one_or_none()
    return ended


async def lock_old_runs(
    tx: Transaction, by_default: Retention, *, until: datetime, most: int
) -> list[RunKey]:
    """Lock some ended runs whose contents are past their time; skips those another server locked."""
    has_some = runs.c.contents_deleted_at.is_(None)
    return await _lock_ended(tx, "contents_days", has_some, by_default=by_default, until=until, most=most)


async def lock_runs_with_old_events(
    tx: Transaction, by_default: Retention, *, until: datetime, most: int
) -> list[RunKey]:
    """Lock some ended runs whose events are; skips those another server locked."""
    has_some = runs.c.events_deleted_at.is_(None)
    return await _lock_ended(tx, "events_days", has_some, by_default=by_default, until=until, most=most)


async def lock_runs_with_old_evidence(tx: Transaction, *, until: datetime, most: int) -> list[RunKey]:
    """Lock some ended runs whose evidence is; skips those another server locked."""
    of_run = runs.join(run_evidence, and_(*(runs.c[name] == run_evidence.c[name] for name in RunKey._fields)))
    # The time of a piece is indexed.
    since = (run_evidence.c.at, runs.c.ended_at)
    return await _lock_ended(
        tx, "evidence_days", FIRST_PIECES, of=of_run, since=since, until=until, most=most
    )


async def _lock_ended(
    tx: Transaction,
    kind: RetentionKind,
    has_some: ColumnElement[bool],
    *,
    of: FromClause = runs,
    since: Sequence[ColumnElement[Any]] = (runs.c.ended_at,),
    until: datetime,
    by_default: Retention = KEPT_FOR_EVER,
    most: int,
) -> list[RunKey]:
    chosen = select(runs.c.account_id, runs.c.run_id).select_from(of).where(has_some)
    rows = chosen.with_for_update(skip_locked=True, of=runs)
    statement = overdue(
        rows, runs.c.account_id, kind, since=since, until=until, by_default=by_default, most=most
    )
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in await tx.execute(statement)]


async def delete_contents(tx: Transaction, keys: Sequence[RunKey]) -> None:
    """Delete request, answer, events, evidence and files of ended runs, whose rows are locked."""
    for key in keys:
        final = (await tx.execute(select(runs.c.final).where(_are([key])))).scalar_one()
        emptied = GraphFinal.model_validate(final, extra="ignore").model_copy(
            update={"content": "", "structured_output": None, "file_changes": None}
        )
        values = {
            "request": null(),
            "objects": None,
            "question": None,
            "shown_answer": null(),
            "metadata": null(),
            "feedback": null(),
            "final": emptied.model_dump(mode="json", by_alias=True),
            "contents_deleted_at": func.coalesce(runs.c.contents_deleted_at, func.now()),
        }
        await tx.execute(update(runs).where(_are([key])).values(values))
        await delete_events(tx, [key])
        await delete_evidence(tx, [key])
    # At once, because runs share contents of files.
    await delete_files(tx, keys)


async def lock_conversation_runs(tx: Transaction, account_id: AccountId, state_key: str) -> list[RunKey]:
    """Lock the ended runs of a conversation with contents, also of an earlier one with its key.

    And the run that has asked for its title: the process that would have deleted it may have ended.
    """
    statement = select(runs.c.run_id, runs.c.turn).where(
        runs.c.account_id == account_id,
        runs.c.state_key == state_key,
        runs.c.ended_at.is_not(None),
        runs.c.contents_deleted_at.is_(None),
    )
    found = await tx.execute(statement.order_by(runs.c.run_id).with_for_update())
    turns = {RunKey(account_id, RunId(row.run_id)): row.turn for row in found}
    titling = [titling_run(key) for key, turn in turns.items() if turn == 1]
    return [*turns, *[key for key in titling if await lock_ended_run(tx, key)]]


async def delete_events(tx: Transaction, keys: Sequence[RunKey]) -> None:
    """Delete the events of ended runs, whose rows are locked; requests and answers stay."""
    deleted_at = func.coalesce(runs.c.events_deleted_at, func.now())
    await tx.execute(update(runs).where(_are(keys)).values(events_deleted_at=deleted_at))
    await tx.execute(delete(run_events).where(_are(keys, run_events)))
    await delete_calls(tx, keys)


def _are(keys: Sequence[RunKey], table: Table = runs) -> ColumnElement[bool]:
    return tuple_(table.c.account_id, table.c.run_id).in_(keys)
