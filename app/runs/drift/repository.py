"""SQL for the runs whose meters disagreed."""

from datetime import datetime

from sqlalchemy import Integer, Numeric, and_, func, literal_column, select, text, true

from app.ids import AccountId
from app.platform.db import Reader
from app.runs.records import DriftedRuns
from app.runs.repository import RUN_COLUMNS, run_of
from app.runs.tables import DRIFTED, runs


async def drifted_runs(
    reader: Reader,
    account_id: AccountId,
    *,
    since: datetime | None,
    until: datetime | None,
    limit: int,
) -> DriftedRuns:
    """Ended runs of an account whose meters disagreed, newest end first."""
    within = and_(
        runs.c.account_id == account_id,
        runs.c.ended_at.is_not(None),
        text(f"({DRIFTED})"),
        true() if since is None else runs.c.ended_at >= since,
        true() if until is None else runs.c.ended_at < until,
    )
    drift = func.coalesce(func.sum(literal_column("(meters ->> 'drift')::int", Integer)), 0)
    difference = literal_column("abs((cost_comparison ->> 'drift_usd')::numeric)", Numeric)
    dollars = func.coalesce(func.sum(difference), 0)
    counted = select(func.count().label("runs"), drift.label("messages"), dollars.label("cost_usd")).where(
        within
    )
    counts = (await reader.execute(counted)).one()
    newest = (
        select(*RUN_COLUMNS).where(within).order_by(runs.c.ended_at.desc(), runs.c.run_id.desc()).limit(limit)
    )
    return DriftedRuns(
        counts.runs, counts.messages, counts.cost_usd, [run_of(row) for row in await reader.execute(newest)]
    )
