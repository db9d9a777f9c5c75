"""ReconciliationStatements: reads what comparisons have found."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from app.billing.reconciliation.comparing.price_audit import merged
from app.billing.reconciliation.records import Difference, Window
from app.billing.reconciliation.repository import find_differences, find_price_differences
from app.billing.reconciliation.statements import repository
from app.billing.reconciliation.statements.records import (
    OperatorStatement,
    OrganizationStatement,
    ReconciliationStatement,
    RunStatement,
)
from app.billing.reports.service import check_window
from app.ids import AccountId, RunKey
from app.platform.db import Database, Snapshot
from app.platform.pagination import PageRequest

_NEWEST = 20
_WRONG_PRICES = 2000
"""Each hour with a wrong price has one per kind; they are merged."""

_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 1, 1, tzinfo=UTC)


class ReconciliationStatements:
    """Statements of periods."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(
        self, account_id: AccountId, *, since: datetime | None, until: datetime | None, as_operator: bool
    ) -> ReconciliationStatement:
        window = _window(since, until)
        newest = PageRequest(_NEWEST)
        async with self._database.snapshot() as reader:
            own = await find_differences(reader, window, newest, explained=False, account_id=account_id)
            return ReconciliationStatement(
                compared_until=await repository.find_compared_until(reader),
                account=await repository.sum_account(reader, account_id, window),
                differences=_without_evidence(own),
                organization=await _organization(reader, window) if as_operator else None,
            )

    async def of_run(self, run: RunKey) -> RunStatement:
        async with self._database.snapshot() as reader:
            found = await find_differences(reader, _window(None, None), PageRequest(_NEWEST), run=run)
            return RunStatement(
                compared_until=await repository.find_compared_until(reader),
                run=await repository.sum_run(reader, run),
                differences=_without_evidence(found),
            )

    async def for_operators(self, *, since: datetime) -> OperatorStatement:
        async with self._database.snapshot() as reader:
            return OperatorStatement(
                await repository.find_compared_until(reader),
                await _organization(reader, _window(since, None)),
            )

    async def differences(
        self,
        page: PageRequest,
        *,
        since: datetime | None,
        until: datetime | None,
        explained: bool | None,
    ) -> tuple[list[Difference], str | None]:
        """Differences of all accounts, newest first, and the cursor of the next page."""
        async with self._database.snapshot() as reader:
            found = await find_differences(reader, _window(since, until), page, explained=explained)
        return page.cut(found, lambda each: (each.starting_at, each.id))


def _without_evidence(found: Sequence[Difference]) -> list[Difference]:
    """Evidence shows what other accounts used at that time."""
    return [replace(each, evidence={}, api_key_id=None) for each in found[:_NEWEST]]


async def _organization(reader: Snapshot, window: Window) -> OrganizationStatement:
    found = await find_differences(reader, window, PageRequest(_NEWEST), explained=False)
    return OrganizationStatement(
        models=await repository.sum_models(reader, window),
        unexplained=found[:_NEWEST],
        prices=merged(await find_price_differences(reader, window, limit=_WRONG_PRICES)),
        problem=await repository.find_problem(reader),
    )


def _window(since: datetime | None, until: datetime | None) -> Window:
    check_window(since, until)
    return Window(since or _FIRST, until or _LAST)
