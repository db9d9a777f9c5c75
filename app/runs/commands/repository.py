"""SQL for cancellations, which are stored with the run."""

from datetime import UTC, datetime

from sqlalchemy import and_, update

from app.db import Transaction
from app.ids import RunKey
from app.runs.records import UNFINISHED, RunRecord
from app.runs.repository import RUN_COLUMNS, run_of
from app.runs.tables import runs


async def request_cancel(tx: Transaction, key: RunKey) -> RunRecord | None:
    """Store that a run is to be cancelled, and return it; None if it has ended, or was cancelled before."""
    interruption = {"kind": "cancel", "state": "requested", "at": datetime.now(UTC).isoformat()}
    is_uncancelled = runs.c.interruption["kind"].as_string().is_distinct_from("cancel")
    is_run = and_(runs.c.account_id == key.account_id, runs.c.run_id == key.run_id)
    statement = (
        update(runs)
        .where(is_run, runs.c.status.in_(UNFINISHED), is_uncancelled)
        .values(interruption=interruption)
        .returning(*RUN_COLUMNS)
    )
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else run_of(row)
