"""BillingReports: receipts, totals of runs and grouped usage of an account or of all."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from app.billing.receipts.records import Receipt, ReceiptFilter, RunTotals, UnpricedReceipts
from app.billing.receipts.repository import find_run_receipts, sum_runs
from app.billing.receipts.repricing import REPRICING
from app.billing.reports.labelled_usage_repository import labelled_usage
from app.billing.reports.records import CacheMissSums, GroupBy, UsageBreakdown, UsageFilter
from app.billing.reports.search_repository import find_receipts, find_unpriced, newest_unpriced
from app.billing.reports.usage_repository import cache_misses, grouped_usage, split_usage
from app.errors import Invalid
from app.ids import AccountId, RunId, RunKey
from app.platform.clock.time_zones import require_time_zone
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.platform.postgres.statements import plan_by_values
from app.requests.attribution import is_label
from app.usage.provider import web_uses
from app.usage.records import NOTHING_CHARGED, Spent, UsageTotal, WebTool

DEFAULT_TOP = 6

_MOST_UNPRICED = 500
"""Limit of what is read before each call of an account with limits."""


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Which usage of an account to sum, and how to group it."""

    group_by: GroupBy | None = None
    filters: UsageFilter = field(default_factory=UsageFilter)
    time_zone: str = "UTC"
    """An IANA name: defines when a day begins."""
    split_by: GroupBy | None = None
    """A second grouping within each group."""
    top: int = DEFAULT_TOP
    """How many parts of a split are listed, the most charged first; the rest is summed."""

    def check(self) -> None:
        """Raise `Invalid` naming a wrong parameter."""
        require_time_zone(self.time_zone)
        check_window(self.filters.since, self.filters.until)
        if self.split_by is not None and self.split_by == self.group_by:
            raise Invalid.field("splitBy", "must be another than groupBy")
        if self.split_by is not None and self.group_by is None:
            raise Invalid.field("groupBy", "is needed where there is a splitBy")
        if is_label(self.group_by) and self.split_by is not None:
            raise Invalid.field("splitBy", "must have the end user or tag: exchange it and groupBy")
        if len({*filter(is_label, (self.group_by, self.split_by)), *self.filters.labels.named}) > 1:
            raise Invalid.field("tag", "cannot be combined with endUser or another tag")


def check_window(since: datetime | None, until: datetime | None) -> None:
    """Raise `Invalid` for a window that ends before it begins."""
    if since is not None and until is not None and since >= until:
        raise Invalid.field("to", "must be later than from")


class BillingReports:
    """Reads receipts and sums over them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, run: RunKey) -> list[Receipt]:
        return (await self.of_runs(run.account_id, [run.run_id]))[run.run_id]

    async def of_runs(self, account_id: AccountId, run_ids: Sequence[RunId]) -> dict[RunId, list[Receipt]]:
        """Those of each of these runs, the oldest first."""
        found: dict[RunId, list[Receipt]] = {run_id: [] for run_id in run_ids}
        async with self._database.snapshot() as reader:
            for receipt in await find_run_receipts(reader, account_id, run_ids):
                found[RunId(receipt.run_id)].append(receipt)
        return found

    async def search(
        self, account_id: AccountId, filters: ReceiptFilter, page: PageRequest
    ) -> tuple[list[Receipt], str | None]:
        """Receipts newest first, and the cursor of the next page."""
        async with self._database.snapshot() as reader:
            await plan_by_values(reader)
            found = await find_receipts(reader, account_id, filters, page)
        return page.cut(found, lambda receipt: (receipt.used_at, receipt.id))

    async def totals(self, account_id: AccountId, run_ids: Sequence[str]) -> dict[str, RunTotals]:
        """The charges of these runs so far, by run id; zero for runs without receipts."""
        async with self._database.snapshot() as reader:
            found = await sum_runs(reader, account_id, run_ids)
        return {run_id: found.get(run_id, RunTotals()) for run_id in run_ids}

    async def spent(self, run: RunKey) -> Spent:
        """The usage of a run so far, from its receipts."""
        receipts = await self.of_run(run)
        charged, used = NOTHING_CHARGED, Counter[WebTool]()
        for receipt in receipts:
            charged = charged.plus(receipt.usage, receipt.cost_usd)
            if receipt.basis != "adjustment":
                used.update(web_uses(receipt.usage, receipt.provider_usage))
        usage = UsageTotal().plus(charged.tokens)
        return Spent(
            usage=usage,
            total_tokens=usage.prompt_tokens + usage.completion_tokens,
            cost_usd=charged.cost_usd,
            turns=sum(receipt.basis == "final" and receipt.origin == "assistant" for receipt in receipts),
            charged=charged,
            web_uses=used,
        )

    async def usage(self, account_id: AccountId | None, query: UsageQuery) -> list[UsageBreakdown]:
        """Sums by group, in the order of the groups, of all accounts if none is named.

        Raises `Invalid` naming a wrong parameter.
        """
        query.check()
        async with self._database.snapshot() as reader:
            await plan_by_values(reader)
            by_label = partial(
                labelled_usage,
                reader,
                account_id,
                top=query.top,
                filters=query.filters,
                time_zone=query.time_zone,
            )
            if query.group_by is not None and is_label(query.group_by):
                found = await by_label(query.group_by, by=None)
                return [replace(each, group=each.part, part=None) for each in found]
            if query.split_by is not None and is_label(query.split_by):
                return await by_label(query.split_by, by=query.group_by)
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

    async def cache_misses(
        self, account_id: AccountId, filters: UsageFilter, *, top: int
    ) -> list[CacheMissSums]:
        """The causes of misses of the prompt cache, the `top` most expensive first; raises `Invalid`."""
        check_window(filters.since, filters.until)
        async with self._database.snapshot() as reader:
            await plan_by_values(reader)
            return await cache_misses(reader, account_id, filters, top=top)

    async def unpriced(
        self,
        account_id: AccountId,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
    ) -> UnpricedReceipts:
        """Receipts without a price that no adjustment has charged yet, and the newest of them."""
        async with self._database.snapshot() as reader:
            return await find_unpriced(
                reader, account_id, since=since, until=until, adjusted_by=REPRICING, limit=limit
            )

    async def unpriced_of_month(self, account_id: AccountId, now: datetime) -> Sequence[Receipt]:
        """The newest receipts of messages of this month (UTC) that wait for a price."""
        since = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        async with self._database.read() as reader:
            return await newest_unpriced(
                reader, account_id, since=since, adjusted_by=REPRICING, limit=_MOST_UNPRICED
            )
