"""SQL for statements."""

from dataclasses import fields
from datetime import datetime

from sqlalchemy import func, select, text

from app.billing.reconciliation.records import ReconciledModel, Window
from app.billing.reconciliation.repository import DATED
from app.billing.reconciliation.statements.records import AccountStatement
from app.billing.reconciliation.tables import reconciled_usage, reconciliations
from app.ids import AccountId, RunKey
from app.platform.db import Reader

_hours = reconciled_usage.c
_runs = reconciliations.c

_COMPARED = f"""
    SELECT coalesce(sum(used.cost_usd), 0) AS cost_usd,
           coalesce(sum(used.cost_usd) FILTER (WHERE compared.unexplained = 0), 0) AS confirmed_usd,
           coalesce(sum(used.cost_usd) FILTER (WHERE compared.unexplained > 0), 0) AS unconfirmed_usd,
           coalesce(sum(used.cost_usd) FILTER (WHERE compared.hour IS NULL), 0) AS pending_usd
      FROM used LEFT JOIN reconciled_usage AS compared
        ON compared.hour = date_trunc('hour', used.at)
       AND compared.model = regexp_replace(used.model, '{DATED}', '')
"""  # noqa: S608 - a constant
_ACCOUNT = text(
    f"""
    WITH used AS (SELECT cost_usd, model, bucket AS at FROM usage_rollups
                   WHERE account_id = :account AND bucket >= :start AND bucket < :end)
    {_COMPARED}
    """  # noqa: S608 - a constant
)
_RUN = text(
    f"""
    WITH used AS (SELECT cost_usd, model, used_at AS at FROM charge_receipts
                   WHERE account_id = :account_id AND run_id = :run_id)
    {_COMPARED}
    """  # noqa: S608 - a constant
)


async def find_compared_until(reader: Reader) -> datetime | None:
    """The end of the latest hour that was compared."""
    statement = select(func.max(_runs.window_end)).where(
        _runs.state == "complete", _runs.window_end <= func.clock_timestamp()
    )
    found: datetime | None = (await reader.execute(statement)).scalar()
    return found


async def find_problem(reader: Reader) -> str | None:
    """Why the latest reconciliation failed; None if it did not."""
    statement = (
        select(_runs.problem).where(_runs.state != "running").order_by(_runs.finished_at.desc()).limit(1)
    )
    found: str | None = (await reader.execute(statement)).scalar()
    return found


async def sum_account(reader: Reader, account_id: AccountId, window: Window) -> AccountStatement:
    found = await reader.execute(_ACCOUNT, {"account": account_id, **window._asdict()})
    return AccountStatement(**found.mappings().one())


async def sum_run(reader: Reader, run: RunKey) -> AccountStatement:
    found = await reader.execute(_RUN, run._asdict())
    return AccountStatement(**found.mappings().one())


async def sum_models(reader: Reader, window: Window) -> list[ReconciledModel]:
    summed = [each.name for each in fields(ReconciledModel) if each.name != "model"]
    statement = (
        select(_hours.model, *(func.sum(_hours[name]).label(name) for name in summed))
        .where(_hours.hour >= window.start, _hours.hour < window.end)
        .group_by(_hours.model)
        .order_by(_hours.model)
    )
    rows = (await reader.execute(statement)).mappings()
    return [ReconciledModel(**{**row, "receipts": int(row["receipts"])}) for row in rows]
