"""SQL for statements."""

from dataclasses import fields
from datetime import datetime

from sqlalchemy import func, select, text

from app.billing.reconciliation.records import Difference, PriceDifference, Window
from app.billing.reconciliation.repository import difference_of, price_difference_of
from app.billing.reconciliation.statements.records import AccountStatement, ReconciledModel
from app.billing.reconciliation.tables import (
    price_differences,
    reconciled_usage,
    reconciliation_differences,
    reconciliations,
)
from app.ids import AccountId
from app.platform.db import Reader, page_of
from app.platform.pagination import PageRequest

_hours = reconciled_usage.c
_found = reconciliation_differences.c
_prices = price_differences.c
_runs = reconciliations.c

_ACCOUNT = text(
    """
    SELECT coalesce(sum(used.cost_usd), 0) AS cost_usd,
           coalesce(sum(used.cost_usd) FILTER (WHERE compared.unexplained = 0), 0) AS confirmed_usd,
           coalesce(sum(used.cost_usd) FILTER (WHERE compared.unexplained > 0), 0) AS unconfirmed_usd,
           coalesce(sum(used.cost_usd) FILTER (WHERE compared.hour IS NULL), 0) AS pending_usd
      FROM usage_rollups AS used
      LEFT JOIN reconciled_usage AS compared
        ON compared.hour = date_trunc('hour', used.bucket)
       AND compared.model
           = regexp_replace(used.model, '[-@]([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|latest)$', '')
     WHERE used.account_id = :account AND used.bucket >= :start AND used.bucket < :end
    """
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
    """What an account was charged, by whether it was compared."""
    found = await reader.execute(_ACCOUNT, {"account": account_id, **window._asdict()})
    return AccountStatement(**found.mappings().one())


async def sum_models(reader: Reader, window: Window) -> list[ReconciledModel]:
    """The sums of each model."""
    summed = [each.name for each in fields(ReconciledModel) if each.name != "model"]
    statement = (
        select(_hours.model, *(func.sum(_hours[name]).label(name) for name in summed))
        .where(_hours.hour >= window.start, _hours.hour < window.end)
        .group_by(_hours.model)
        .order_by(_hours.model)
    )
    rows = (await reader.execute(statement)).mappings()
    return [ReconciledModel(**{**row, "receipts": int(row["receipts"])}) for row in rows]


async def page_of_differences(
    reader: Reader,
    window: Window,
    page: PageRequest,
    *,
    explained: bool | None = None,
    account_id: AccountId | None = None,
) -> list[Difference]:
    """Differences of the latest comparison of their time, newest first."""
    statement = select(reconciliation_differences).where(
        _found.superseded_by.is_(None),
        _found.starting_at >= window.start,
        _found.starting_at < window.end,
    )
    if explained is not None:
        statement = statement.where(_found.explained == explained)
    if account_id is not None:
        statement = statement.where(_found.account_id == account_id)
    statement = page_of(statement, page, at=_found.starting_at, id_=_found.id)
    return [difference_of(row) for row in (await reader.execute(statement)).mappings()]


async def find_wrong_prices(reader: Reader, window: Window, *, limit: int) -> list[PriceDifference]:
    """Prices that the latest audit of their time has found to differ, newest first."""
    statement = (
        select(price_differences)
        .where(
            _prices.superseded_by.is_(None),
            _prices.starting_at >= window.start,
            _prices.starting_at < window.end,
        )
        .order_by(_prices.starting_at.desc(), _prices.id.desc())
        .limit(limit)
    )
    return [price_difference_of(row) for row in (await reader.execute(statement)).mappings()]
