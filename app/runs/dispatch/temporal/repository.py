"""SQL for the submission of ready runs to Temporal."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import text

from app.ids import AccountId, RunId, RunKey
from app.platform.db import Transaction


async def take_unsubmitted(tx: Transaction, *, count: int, again_after: timedelta) -> list[RunKey]:
    """Mark up to so many ready runs as submitted, and return them in the order of their start.

    Those are runs that were never submitted, or not since `again_after`.
    """
    parameters = {"count": count, "again_after": again_after}
    rows = (await tx.execute(_TAKE_UNSUBMITTED, parameters)).all()
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in rows]


async def mark_unsubmitted(tx: Transaction, submitted: Sequence[RunKey]) -> None:
    """These runs could not be submitted."""
    parameters = {
        "accounts": [run.account_id for run in submitted],
        "ids": [run.run_id for run in submitted],
    }
    await tx.execute(_MARK_UNSUBMITTED, parameters)


_TAKE_UNSUBMITTED = text(
    """
    WITH next AS (
        SELECT account_id, run_id, rank, ready_at FROM runs
         WHERE status = 'queued' AND held_for IS NULL AND interruption IS NULL
           AND (submitted_at IS NULL OR submitted_at < now() - CAST(:again_after AS interval))
         ORDER BY rank, ready_at LIMIT :count FOR UPDATE SKIP LOCKED
    ), submitted AS (
        UPDATE runs SET submitted_at = now() FROM next
         WHERE runs.account_id = next.account_id AND runs.run_id = next.run_id
        RETURNING runs.account_id, runs.run_id, runs.rank, runs.ready_at
    )
    SELECT account_id, run_id FROM submitted ORDER BY rank, ready_at
    """
)

_MARK_UNSUBMITTED = text(
    """
    UPDATE runs SET submitted_at = NULL
      FROM unnest(CAST(:accounts AS uuid[]), CAST(:ids AS text[])) AS failed (account_id, run_id)
     WHERE runs.account_id = failed.account_id AND runs.run_id = failed.run_id AND status = 'queued'
    """
)
