"""SQL that gives a running run back to the queue."""

from sqlalchemy import Integer, bindparam, text

from app.ids import RunKey
from app.platform.db import Transaction


async def requeue_run(tx: Transaction, key: RunKey, *, attempt: int | None = None) -> bool:
    """Begin the run's next attempt in any worker: it is ready, before what has become ready since.

    `attempt`: only if it is this one that runs. Returns whether there will be another attempt.
    """
    requeued = await tx.execute(_REQUEUE, {**key._asdict(), "attempt": attempt, "more": 1})
    return requeued.first() is not None


async def return_run(tx: Transaction, key: RunKey, attempt: int) -> None:
    """Leave an attempt that has not begun to any worker, in the same way."""
    await tx.execute(_REQUEUE, {**key._asdict(), "attempt": attempt, "more": 0})


_REQUEUE = text(
    """
    WITH requeued AS (
        UPDATE runs
           SET status = 'queued', attempt = attempt + :more, process_id = NULL, held_for = NULL, rank = 0,
               ready_at = now(), offered_to = NULL, offered_until = NULL, submitted_at = NULL,
               started_at = CASE WHEN attempt + :more > 0 THEN started_at END
         WHERE account_id = :account_id AND run_id = :run_id AND status = 'running'
           AND attempt = coalesce(:attempt, attempt)
        RETURNING account_id, run_id
    ), closed AS (
        -- Calls of the attempt that is over; those that an earlier one has left are resolved.
        UPDATE run_waits SET resolved_by = 'run_stopped', resolved_at = now() FROM requeued
         WHERE run_waits.account_id = requeued.account_id AND run_waits.run_id = requeued.run_id
           AND resolved_by IS NULL
    )
    SELECT pg_notify('runtally_runs_ready', '') FROM requeued
    """
).bindparams(bindparam("attempt", type_=Integer), bindparam("more", type_=Integer))
