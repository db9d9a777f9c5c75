"""What dashboards read: receipts, sums of runs, usage by group; always of one account."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache
from zoneinfo import available_timezones

from app.billing.records import (
    GroupBy,
    Receipt,
    ReceiptFilter,
    RunTotals,
    UnpricedReceipts,
    UsageBreakdown,
    UsageFilter,
)
from app.billing.repository import find_run_receipts, sum_runs
from app.billing.repricing import REPRICING
from app.billing.search_repository import find_receipts, find_unpriced
from app.billing.usage_repository import grouped_usage, split_usage
from app.db import Database
from app.errors import Invalid
from app.ids import AccountId, RunKey
from app.pagination import PageRequest
from app.usage import Spent, UsageTotal

DEFAULT_TOP = 6


@cache
def _time_zones() -> frozenset[str]:
    # Looking them up walks a directory tree. On some machines it holds a name for the machine's own
    # zone: no IANA name, and PostgreSQL does not know it.
    return frozenset(available_timezones()) - {"localtime"}


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """What of an account's usage is wanted, and how it is grouped."""

    group_by: GroupBy | None = None
    filters: UsageFilter = field(default_factory=UsageFilter)
    time_zone: str = "UTC"
    """An IANA name: where a day begins."""
    split_by: GroupBy | None = None
    """What each group is split by in turn."""
    top: int = DEFAULT_TOP
    """How many parts of a split stand for themselves: the most charged."""

    def check(self) -> None:
        """Raise `Invalid` naming what makes no sense."""
        if self.time_zone not in _time_zones():
            raise Invalid.field("timeZone", "must be an IANA time zone, for example Europe/Berlin")
        check_window(self.filters.since, self.filters.until)
        if self.split_by is not None and self.split_by == self.group_by:
            raise Invalid.field("splitBy", "must be another than groupBy")
        if self.split_by is not None and self.group_by is None:
            raise Invalid.field("groupBy", "is needed where there is a splitBy")


def check_window(since: datetime | None, until: datetime | None) -> None:
    """Raise `Invalid` for a window that ends before it begins."""
    if since is not None and until is not None and since >= until:
        raise Invalid.field("to", "must be later than from")


class BillingReports:
    """Reads what has been charged."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, run: RunKey) -> list[Receipt]:
        """A run's receipts, oldest first."""
        async with self._database.snapshot() as reader:
            return await find_run_receipts(reader, run)

    async def search(
        self,
        account_id: AccountId,
        filters: ReceiptFilter,
        *,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[Receipt], str | None]:
        """Receipts newest first, and the cursor of the next page; raises `Invalid` for `cursor`."""
        page = PageRequest.of_uuids(limit, cursor)
        async with self._database.snapshot() as reader:
            found = await find_receipts(reader, account_id, filters, page)
        return page.cut(found, lambda receipt: (receipt.created_at, receipt.id))

    async def totals(self, account_id: AccountId, run_ids: Sequence[str]) -> dict[str, RunTotals]:
        """What these runs have been charged so far; runs without receipts count as zero."""
        async with self._database.snapshot() as reader:
            found = await sum_runs(reader, account_id, run_ids)
        return {run_id: found.get(run_id, RunTotals()) for run_id in run_ids}

    async def spent(self, run: RunKey) -> Spent:
        """What a run has used so far, by its receipts."""
        receipts = await self.of_run(run)
        prompt_tokens = sum(receipt.usage.prompt_tokens for receipt in receipts)
        completion_tokens = sum(receipt.output_tokens for receipt in receipts)
        return Spent(
            usage=UsageTotal(prompt_tokens, completion_tokens),
            total_tokens=prompt_tokens + completion_tokens,
            cost_usd=sum((receipt.cost_usd for receipt in receipts), Decimal(0)),
            turns=sum(receipt.basis == "final" and receipt.origin == "assistant" for receipt in receipts),
        )

    async def usage(self, account_id: AccountId, query: UsageQuery) -> list[UsageBreakdown]:
        """Sums by group, in the groups' order; raises `Invalid` naming what is wrong."""
        query.check()
        async with self._database.snapshot() as reader:
            if query.group_by is None or query.split_by is None:
                return await grouped_usage(
                    reader, account_id, query.group_by, filters=query.filters, time_zone=query.time_zone
                )
            return await split_usage(
                reader,
                account_id,
                query.group_by,
                split_by=query.split_by,
                top=query.top,
                filters=query.filters,
                time_zone=query.time_zone,
            )

    async def unpriced(
        self,
        account_id: AccountId,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
    ) -> UnpricedReceipts:
        """Receipts that still wait for a price, and the newest of them."""
        async with self._database.snapshot() as reader:
            return await find_unpriced(
                reader, account_id, since=since, until=until, adjusted_by=REPRICING, limit=limit
            )
