"""SQL for what Temporal gets of schedules."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import delete, select, text, update

from app.platform.db import Reader, Transaction
from app.schedules.records import Schedule
from app.schedules.repository import SCHEDULE_COLUMNS, schedule_of
from app.schedules.tables import deleted_schedules, schedules
from app.schedules.temporal.records import MirroredRow

_MIRRORED = schedules.c.mirrored_revision

# Not 0: Temporal may have an earlier revision of them.
_MARK_UNMIRRORED = text(
    """
    WITH found AS (
        SELECT id FROM schedules WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY id FOR UPDATE
    )
    UPDATE schedules SET mirrored_revision = -1 FROM found WHERE schedules.id = found.id
    """
)
_INSERT_DELETED = text(
    "INSERT INTO deleted_schedules SELECT unnest(CAST(:ids AS uuid[])) ON CONFLICT DO NOTHING"
)


async def take_unmirrored(tx: Transaction, *, limit: int) -> list[Schedule]:
    """Mark up to so many schedules as mirrored that Temporal does not have as they are, and return them."""
    # Those that failed come last.
    differs = select(schedules.c.id).where(schedules.c.revision != _MIRRORED).order_by(_MIRRORED.desc())
    chosen = differs.limit(limit).with_for_update(skip_locked=True).cte("chosen")
    statement = update(schedules).where(schedules.c.id == chosen.c.id)
    marked = statement.values(mirrored_revision=schedules.c.revision).returning(*SCHEDULE_COLUMNS)
    return [schedule_of(row) for row in (await tx.execute(marked)).mappings()]


async def mark_unmirrored(tx: Transaction, found: Collection[UUID]) -> None:
    """Temporal may not have these as they are."""
    await tx.execute(_MARK_UNMIRRORED, {"ids": list(found)})


async def take_deleted(tx: Transaction, *, limit: int) -> list[UUID]:
    """Up to so many deleted schedules that Temporal still has; it is their last mention."""
    chosen = select(deleted_schedules.c.id).limit(limit).with_for_update(skip_locked=True).cte("chosen")
    statement = delete(deleted_schedules).where(deleted_schedules.c.id == chosen.c.id)
    return list((await tx.execute(statement.returning(deleted_schedules.c.id))).scalars())


async def insert_deleted(tx: Transaction, found: Collection[UUID]) -> None:
    """Temporal may still have these."""
    await tx.execute(_INSERT_DELETED, {"ids": list(found)})


async def mirrored_rows(reader: Reader) -> list[MirroredRow]:
    """All schedules."""
    columns = select(schedules.c.id, schedules.c.revision, schedules.c.paused_reason)
    return [MirroredRow(**row) for row in (await reader.execute(columns)).mappings()]
