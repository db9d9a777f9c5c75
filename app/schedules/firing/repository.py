"""SQL for due times: find what is to do, decide on it, record it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import and_, delete, func, select, text, update
from sqlalchemy.dialects import postgresql

from app.ids import AccountId, RunId
from app.platform.db import Reader, Transaction
from app.runs.tables import runs
from app.schedules.records import DueSchedule, Schedule, ScheduledRun, Trigger, run_id_of
from app.schedules.tables import schedule_runs

_due = schedule_runs.c
_DUE = [_due[field.name] for field in fields(ScheduledRun)]
_OPEN = ("starting", "waiting")

HISTORY_ROWS = 1000
"""How many due times of a schedule are kept."""

_WORK = text(
    """
    WITH work (id, account_id, work_at) AS (
        SELECT id, account_id, next_at FROM schedules WHERE next_at <= :now
        UNION ALL
        SELECT id, account_id, CAST(:now AS timestamptz) FROM schedules
         WHERE next_at IS NOT NULL AND aligned_at > :farthest_alignment
        UNION ALL
        SELECT schedules.id, account_id, next_attempt_at
          FROM schedule_runs AS due JOIN schedules ON schedules.id = due.schedule
         WHERE outcome = 'starting' AND (next_attempt_at <= :now OR next_attempt_at > :farthest_attempt)
        UNION ALL
        SELECT schedules.id, account_id, due_at
          FROM schedule_runs AS due JOIN schedules ON schedules.id = due.schedule
         WHERE outcome = 'waiting'
           AND NOT EXISTS (SELECT FROM schedule_runs AS other
                            WHERE other.schedule = due.schedule AND other.outcome = 'starting')
           AND (overlap IN ('cancel', 'allow') OR NOT EXISTS (
                   SELECT FROM runs WHERE runs.account_id = schedules.account_id
                      AND runs.run_id = waits_for AND ended_at IS NULL))
    ), of_each_account AS (
        SELECT id, account_id, min(work_at) AS work_at,
               row_number() OVER (
                   PARTITION BY account_id ORDER BY min(work_at), hashtextextended(id::text, :salt)
               ) AS place
          FROM work WHERE id <> ALL (CAST(:busy AS uuid[])) GROUP BY id, account_id
    )
    SELECT id, account_id FROM of_each_account
     WHERE place <= :per_account AND account_id <> ALL (CAST(:busy_accounts AS uuid[]))
     ORDER BY work_at, hashtextextended(id::text, :salt) LIMIT :limit
    """
)
_PRUNE = text(
    """
    DELETE FROM schedule_runs
     WHERE schedule = :schedule AND outcome NOT IN ('starting', 'waiting')
       AND due_at < (SELECT due_at FROM schedule_runs WHERE schedule = :schedule
                      ORDER BY due_at DESC OFFSET :offset LIMIT 1)
    """
)


async def find_work(
    reader: Reader,
    *,
    now: datetime,
    farthest_alignment: datetime,
    farthest_attempt: datetime,
    per_account: int,
    limit: int,
    salt: int,
    busy: Collection[UUID],
    busy_accounts: Collection[AccountId],
) -> list[DueSchedule]:
    """Schedules for which there is something to do, the longest due first, without those that are `busy`.

    Of those due at the same moment, processes with different
    `salt` find different ones first. Times beyond `farthest_alignment` and `farthest_attempt` were stored
    before the database's clock went back.
    """
    values = {
        "now": now,
        "farthest_alignment": farthest_alignment,
        "farthest_attempt": farthest_attempt,
        "per_account": per_account,
        "limit": limit,
        "salt": salt,
        "busy": list(busy),
        "busy_accounts": list(busy_accounts),
    }
    return [DueSchedule(**row) for row in (await reader.execute(_WORK, values)).mappings()]


async def insert_missed(tx: Transaction, schedule: UUID, times: Sequence[datetime]) -> None:
    """Insert due times that were missed."""
    if times:
        missed = {"trigger": "cron", "outcome": "missed"}
        rows = [_new(schedule, time) | missed | {"start_by": time, "next_attempt_at": time} for time in times]
        await tx.execute(postgresql.insert(schedule_runs).values(rows).on_conflict_do_nothing())


async def insert_due(
    tx: Transaction, schedule: UUID, due_at: datetime, *, trigger: Trigger, values: Mapping[str, Any]
) -> ScheduledRun | None:
    """Insert a due time; None if there is one already. One that was missed is replaced."""
    decided = {"trigger": trigger, **values}
    insert = postgresql.insert(schedule_runs).values({**_new(schedule, due_at), **decided})
    statement = insert.on_conflict_do_update(
        index_elements=["schedule", "due_at"], set_=decided, where=_due.outcome == "missed"
    )
    row = (await tx.execute(statement.returning(*_DUE))).mappings().one_or_none()
    return None if row is None else ScheduledRun(**row)


async def find_due(reader: Reader, schedule: UUID, due: datetime | RunId) -> ScheduledRun | None:
    """By its time, or by the id of its run."""
    is_it = _due.due_at == due if isinstance(due, datetime) else _due.run_id == due
    statement = select(*_DUE).where(_due.schedule == schedule, is_it)
    row = (await reader.execute(statement)).mappings().one_or_none()
    return None if row is None else ScheduledRun(**row)


async def open_due_times(reader: Reader, schedule: UUID) -> list[ScheduledRun]:
    """The due times of a schedule that wait or are being started, oldest first."""
    is_open = and_(_due.schedule == schedule, _due.outcome.in_(_OPEN))
    statement = select(*_DUE).where(is_open).order_by(_due.due_at)
    return [ScheduledRun(**row) for row in (await reader.execute(statement)).mappings()]


async def unfinished_runs(reader: Reader, schedule: Schedule) -> list[RunId]:
    """The runs of a schedule that have not ended, oldest first."""
    is_run = and_(runs.c.account_id == schedule.account_id, runs.c.run_id == _due.run_id)
    statement = (
        select(_due.run_id)
        .join(runs, is_run)
        .where(_due.schedule == schedule.id, _due.outcome == "started", runs.c.ended_at.is_(None))
        .order_by(_due.due_at)
    )
    return [RunId(run_id) for run_id in (await reader.execute(statement)).scalars()]


async def update_open(
    tx: Transaction, due: ScheduledRun, values: Mapping[str, Any], *, attempt: int | None = None
) -> bool:
    """Change a due time that waits or is being started; False if it does not, or at another attempt."""
    is_open = and_(_is(due), _due.outcome.in_(_OPEN))
    if attempt is not None:
        is_open = and_(is_open, _due.attempts == attempt)
    return bool((await tx.execute(update(schedule_runs).where(is_open).values(values))).rowcount)


async def record_started(tx: Transaction, due: ScheduledRun) -> None:
    """Store that a due time has its run, whatever was stored of it before."""
    started_at = func.coalesce(_due.started_at, func.clock_timestamp())
    values = {"outcome": "started", "started_at": started_at, "error": None, "waits_for": None}
    await tx.execute(update(schedule_runs).where(_is(due)).values(values))


async def prune_history(tx: Transaction, schedule: UUID) -> None:
    """Delete all but the latest due times of a schedule."""
    await tx.execute(_PRUNE, {"schedule": schedule, "offset": HISTORY_ROWS - 1})


async def delete_old_due_times(tx: Transaction, *, before: datetime, limit: int) -> int:
    """Delete decided due times before this moment; returns how many."""
    is_old = and_(_due.due_at < before, _due.outcome.not_in(_OPEN))
    chosen = select(_due.schedule, _due.due_at).where(is_old).limit(limit)
    old = chosen.with_for_update(skip_locked=True).cte("old")
    is_chosen = and_(_due.schedule == old.c.schedule, _due.due_at == old.c.due_at)
    return (await tx.execute(delete(schedule_runs).where(is_chosen))).rowcount


def _new(schedule: UUID, due_at: datetime) -> dict[str, Any]:
    return {"schedule": schedule, "due_at": due_at, "run_id": run_id_of(schedule, due_at)}


def _is(due: ScheduledRun) -> Any:
    return and_(_due.schedule == due.schedule, _due.due_at == due.due_at)
