"""SQL for erasures."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, func, select, text, update
from sqlalchemy.dialects import postgresql

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.db import Reader, Transaction, json_text
from app.runs.batches.tables import batch_items, batches
from app.runs.erasure.records import Erasure
from app.runs.erasure.tables import erasures
from app.runs.records import UNFINISHED
from app.runs.tables import runs

_COLUMNS = [erasures.c[field.name] for field in fields(Erasure)]

_CONVERSATIONS = """
    WITH RECURSIVE known (state_key) AS (
        SELECT state_key FROM runs
         WHERE account_id = :account_id AND end_user = :end_user AND state_key IS NOT NULL
         UNION
        SELECT state_key FROM sessions
         WHERE account_id = :account_id AND coalesce(opening, managed) ->> 'endUser' = :end_user
         UNION
        SELECT fork.state_key FROM sessions AS fork JOIN known ON fork.forked_from = known.state_key
         WHERE fork.account_id = :account_id
    )
"""
"""Those of an end user, also without a run, and their forks, which begin with the same messages."""

_CHOSEN = text(
    f"""
    {_CONVERSATIONS}
    SELECT state_key FROM sessions
     WHERE account_id = :account_id AND state_key IN (SELECT state_key FROM known)
     ORDER BY state_key LIMIT 1
    """  # noqa: S608 - constants
)

_UNFINISHED = text(
    f"""
    {_CONVERSATIONS}
    SELECT account_id, run_id FROM runs
     WHERE account_id = :account_id AND status = ANY (:unfinished)
       AND (end_user = :end_user OR state_key IN (SELECT state_key FROM known))
    """  # noqa: S608 - constants
).bindparams(bindparam("unfinished", list(UNFINISHED), postgresql.ARRAY(runs.c.status.type)))

_DELETE_UNBEGUN = text(
    """
    DELETE FROM sessions
     WHERE account_id = :account_id AND turns = 0 AND coalesce(opening, managed) ->> 'apiKeyId' IN
           (SELECT id::text FROM api_keys WHERE account_id = :account_id AND labels ->> 'endUser' = :end_user)
    """
)

_IS_PENDING = (
    batch_items.c.batch == batches.c.id,
    batches.c.ended_at.is_(None),
    batch_items.c.request.is_not(None),
)

_COUNT_STOPPED = text(
    """
    UPDATE batches SET pending = pending - stopped.items, cancelled = cancelled + stopped.items
      FROM (SELECT batch, count(*) AS items
              FROM unnest(CAST(:stopped AS uuid[])) AS given (batch) GROUP BY batch) AS stopped
     WHERE batches.id = stopped.batch
    """
)


async def insert_erasure(tx: Transaction, account_id: AccountId, end_user: str) -> tuple[Erasure, bool]:
    new = new_uuid()
    insert = postgresql.insert(erasures).values(id=new, account_id=account_id, end_user=end_user)
    # The update of nothing returns the row that is there.
    same = insert.on_conflict_do_update(
        index_elements=["account_id", "end_user"], set_={"end_user": insert.excluded.end_user}
    )
    row = (await tx.execute(same.returning(*_COLUMNS))).mappings().one()
    return Erasure(**row), row["id"] == new


async def find_erasure(reader: Reader, account_id: AccountId, erasure: UUID) -> Erasure | None:
    statement = select(*_COLUMNS).where(erasures.c.account_id == account_id, erasures.c.id == erasure)
    row = (await reader.execute(statement)).mappings().one_or_none()
    return None if row is None else Erasure(**row)


async def open_erasures(reader: Reader) -> list[Erasure]:
    """All that have not ended, oldest first."""
    statement = select(*_COLUMNS).where(erasures.c.ended_at.is_(None)).order_by(erasures.c.created_at)
    return [Erasure(**row) for row in (await reader.execute(statement)).mappings()]


async def lock_erasure(tx: Transaction, erasure: UUID) -> bool:
    """Work on an erasure until the transaction ends; False if it has ended, or another process does."""
    is_open = (erasures.c.id == erasure, erasures.c.ended_at.is_(None))
    statement = select(erasures.c.id).where(*is_open).with_for_update(skip_locked=True)
    return (await tx.execute(statement)).first() is not None


async def count_erased(
    tx: Transaction, erasure: UUID, *, runs_: int = 0, conversations: int = 0, receipts: int = 0
) -> None:
    """Add to the progress of an erasure that is locked."""
    counts = erasures.c
    values: dict[Any, Any] = {
        counts.runs: counts.runs + runs_,
        counts.conversations: counts.conversations + conversations,
        counts.receipts: counts.receipts + receipts,
    }
    if runs_ or conversations:
        values[counts.changed_by] = text("pg_current_xact_id()::text::bigint")
    await tx.execute(update(erasures).where(counts.id == erasure).values(values))


async def unfinished_runs(reader: Reader, account_id: AccountId, end_user: str) -> list[RunKey]:
    found = await reader.execute(_UNFINISHED, {"account_id": account_id, "end_user": end_user})
    return [RunKey(row.account_id, RunId(row.run_id)) for row in found]


async def next_conversation(reader: Reader, account_id: AccountId, end_user: str) -> str | None:
    """A conversation of an end user, or a fork of one; None if there is none."""
    found = await reader.execute(_CHOSEN, {"account_id": account_id, "end_user": end_user})
    state_key: str | None = found.scalar_one_or_none()
    return state_key


async def delete_unbegun(tx: Transaction, account_id: AccountId, end_user: str) -> int:
    """Delete conversations without a run that keys with this label have created; returns how many."""
    return (await tx.execute(_DELETE_UNBEGUN, {"account_id": account_id, "end_user": end_user})).rowcount


async def lock_runs(tx: Transaction, account_id: AccountId, end_user: str, *, most: int) -> list[RunKey]:
    is_chosen = (runs.c.account_id == account_id, runs.c.end_user == end_user, runs.c.ended_at.is_not(None))
    statement = select(runs.c.run_id).where(*is_chosen).order_by(runs.c.run_id).limit(most)
    found = await tx.execute(statement.with_for_update())
    return [RunKey(account_id, RunId(run_id)) for run_id in found.scalars()]


async def name_by_hash(tx: Transaction, account_id: AccountId, keys: Sequence[RunKey], hashed: str) -> None:
    """Replace the end user of these runs."""
    is_given = (runs.c.account_id == account_id, runs.c.run_id.in_([key.run_id for key in keys]))
    await tx.execute(update(runs).where(*is_given).values(end_user=hashed))


async def stop_batch_items(tx: Transaction, account_id: AccountId, end_user: str) -> int:
    """Cancel what batches have not started for an end user; returns how many requests they still have."""
    is_open = (batches.c.account_id == account_id, batches.c.ended_at.is_(None))
    # Batches before items, as everywhere.
    await tx.execute(select(batches.c.id).where(*is_open).order_by(batches.c.id).with_for_update())
    named = json_text(batch_items.c.request, "endUser") == end_user
    stopped = (
        update(batch_items)
        .where(*_IS_PENDING, *is_open, batch_items.c.status == "pending", named)
        .values(status="cancelled", request=None)
        .returning(batch_items.c.batch)
    )
    found = (await tx.execute(stopped)).scalars().all()
    if found:
        await tx.execute(_COUNT_STOPPED, {"stopped": list(found)})
    left = select(func.count()).select_from(batch_items.join(batches, _IS_PENDING[0]))
    return int((await tx.execute(left.where(*_IS_PENDING[1:], *is_open, named))).scalar_one())


async def is_erased(tx: Transaction, erasure: Erasure) -> bool:
    """Whether no run has the end user any more, and none that is being charged was read with it.

    What began before the last run lost its end user has to be over.
    """
    is_over = text("changed_by < pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    of_end_user = select(runs.c.run_id).where(
        runs.c.account_id == erasure.account_id, runs.c.end_user == erasure.end_user
    )
    statement = select(erasures.c.id).where(erasures.c.id == erasure.id, is_over, ~of_end_user.exists())
    return (await tx.execute(statement)).first() is not None


async def end_erasure(tx: Transaction, erasure: UUID) -> None:
    is_given = erasures.c.id == erasure
    await tx.execute(update(erasures).where(is_given).values(end_user=None, ended_at=func.now()))
