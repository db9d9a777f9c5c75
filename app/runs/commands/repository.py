"""SQL for cancellations, which are stored with the run."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import select, tuple_, update

from app.ids import RunKey
from app.platform.db import Transaction
from app.runs.records import UNFINISHED, RunRecord
from app.runs.repository import RUN_COLUMNS, run_of
from app.runs.tables import runs


async def request_cancel(tx: Transaction, key: RunKey) -> RunRecord | None:
    """Store that a run is to be cancelled, and return it; None if it has ended, or was cancelled before."""
    return next(iter(await request_cancels(tx, [key])), None)


async def request_cancels(tx: Transaction, keys: Sequence[RunKey]) -> list[RunRecord]:
    """The same for several runs. Locks their rows, in the order in which a handover does.

    So not in a transaction that has locked the dispatching of an account, or its credit.
    """
    if not keys:
        return []
    interruption = {"kind": "cancel", "state": "requested", "at": datetime.now(UTC).isoformat()}
    is_uncancelled = runs.c.interruption["kind"].as_string().is_distinct_from("cancel")
    is_given = tuple_(runs.c.account_id, runs.c.run_id).in_(keys)
    chosen = (
        select(runs.c.account_id, runs.c.run_id)
        .where(is_given, runs.c.status.in_(UNFINISHED), is_uncancelled)
        .order_by(runs.c.account_id, runs.c.run_id)
        .with_for_update(key_share=True)
        .cte("chosen")
    )
    statement = (
        update(runs)
        .where(runs.c.account_id == chosen.c.account_id, runs.c.run_id == chosen.c.run_id)
        .values(interruption=interruption)
        .returning(*RUN_COLUMNS)
    )
    return [run_of(row) for row in await tx.execute(statement)]
