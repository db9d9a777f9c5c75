"""Reconciliation: compares receipts with the provider's reports, on request and every hour."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import anyio
import structlog

from app.billing.prices.price_list import PriceList
from app.billing.reconciliation import records, repository
from app.billing.reconciliation.calls.repository import delete_old_calls, find_calls, find_unbilled
from app.billing.reconciliation.comparing.alignment import REACH, best_moment
from app.billing.reconciliation.comparing.comparison import compare
from app.billing.reconciliation.comparing.price_audit import audit_prices
from app.billing.reconciliation.comparing.receipt_parts import recorded_parts
from app.billing.reconciliation.comparing.summary import hours_of, log_new, superseded_by, without_known
from app.billing.reconciliation.comparing.unit_prices import UnitPrices
from app.billing.reconciliation.provider.reports import ProviderReports, ReportNotOffered, ReportsUnavailable
from app.billing.reconciliation.schedule import HORIZON, due
from app.errors import AppError, Conflict
from app.ids import AccountId, new_uuid
from app.platform.background import forever
from app.platform.db import Database, Reader

log = structlog.get_logger(__name__)

EVERY_S = 600.0
"""How often it is checked whether another hour can be compared."""

_LEASE = timedelta(minutes=15)
_RELEASE_S = 3.0
_MARGIN = 2 * REACH
_CALLS_KEPT = timedelta(days=400)
_SLICE = 1000
_NAMED_RECEIPTS = 5


class ReconciliationRunning(Conflict):
    """Another process compares receipts with the provider's reports at this moment; try again later."""


class ProviderKeyUnknown(AppError):
    """It is not known which of the provider's API keys is ours; set RUNTALLY_PROVIDER_KEY_IDS."""


@dataclass(frozen=True, slots=True)
class ReconciliationConfig:
    """Which keys are ours, and how long the provider's reports take."""

    run_key: str | None = field(repr=False)
    """The key of the gateway: its id is looked up unless `key_ids` are given."""
    key_ids: tuple[str, ...] = ()
    settle: timedelta = timedelta(minutes=30)
    """Reports of a time are complete so long after it."""


async def find_own_keys(reports: ProviderReports, config: ReconciliationConfig) -> frozenset[str]:
    """The provider's ids of our keys; raises `ProviderKeyUnknown`."""
    if config.key_ids:
        return frozenset(config.key_ids)
    found = [] if config.run_key is None else await reports.key_ids(config.run_key)
    if len(found) != 1:
        raise ProviderKeyUnknown
    return frozenset(found)


@dataclass(slots=True)
class Reconciliation:
    """Compares, stores and logs; several processes may try, and one at a time does."""

    database: Database
    prices: PriceList
    reports: ProviderReports
    config: ReconciliationConfig
    find_profiles: Callable[[], Awaitable[Mapping[str, AccountId]]]
    """The accounts by the provider's ids of their user profiles."""
    _key_ids: frozenset[str] = field(default_factory=frozenset, init=False)

    async def watch(self) -> None:
        """Compare each hour once it is complete, until cancelled."""
        await forever(self.compare_due, EVERY_S, name="reconciliation")

    async def compare_due(self, *, now: datetime | None = None) -> list[records.ReconciledWindow]:
        """Compare what is due; what remains, or fails, is due in the next pass."""
        end = self.latest_end(now)
        async with self.database.snapshot() as reader:
            history = await repository.find_history(reader, records.Window(end - HORIZON, end))
        results: list[records.ReconciledWindow] = []
        try:
            for part in due(end, history):
                results += [each async for each in self.compare(part)]
        except (ReconciliationRunning, ReportsUnavailable, ProviderKeyUnknown):
            # Another server does it; or the failure is logged and stored, and the next call tries again.
            pass
        return results

    def latest_end(self, now: datetime | None = None) -> datetime:
        """The end of the latest hour that the provider's reports contain completely."""
        return records.floor_to((now or datetime.now(UTC)) - self.config.settle, records.HOUR)

    async def compare(self, window: records.Window) -> AsyncIterator[records.ReconciledWindow]:
        """Compare a window day by day; each day is stored as soon as it is done.

        Raises `ReconciliationRunning`, `ProviderKeyUnknown` and `ReportsUnavailable`.
        """
        for part in window.days():
            async with self._claimed(part) as id_:
                result = await self._compared(part)
                async with self.database.transaction() as tx:
                    known = await repository.find_differences(tx, part)
                    known_prices = await repository.find_price_differences(tx, part)
                    new = without_known(result, known, known_prices)
                    if not await repository.complete(
                        tx, id_, new, gone=superseded_by(result, known, known_prices)
                    ):
                        raise ReconciliationRunning
            log_new(result, known=known, known_prices=known_prices)
            yield result
        async with self.database.transaction() as tx:
            await delete_old_calls(tx, before=window.end - _CALLS_KEPT)

    @asynccontextmanager
    async def _claimed(self, window: records.Window) -> AsyncIterator[UUID]:
        """Only one process compares at a time; a claim of a dead process expires."""
        id_ = new_uuid()
        async with self.database.transaction() as tx:
            if not await repository.claim(tx, id_, window, lease=_LEASE):
                raise ReconciliationRunning
        try:
            async with asyncio.timeout(_LEASE.total_seconds() * 0.9):
                yield id_
        except BaseException as error:
            reason = error.detail if isinstance(error, AppError) else type(error).__name__
            if isinstance(error, Exception) and not isinstance(error, ReconciliationRunning):
                log.error("reconciliation.failed", reason=reason, start=window.start.isoformat())  # noqa: TRY400
            # Also while the server stops: otherwise the claim would last until it expires.
            with anyio.move_on_after(_RELEASE_S, shield=True):
                async with self.database.transaction() as tx:
                    await repository.fail(tx, id_, reason)
            raise

    async def _compared(self, window: records.Window) -> records.ReconciledWindow:
        books = await self._books(window)
        # In a thread: a busy day takes seconds.
        prices = await asyncio.to_thread(UnitPrices, self.prices, books.recorded)
        differences = await self._with_receipts(await asyncio.to_thread(compare, books, prices))
        costs, source = await self._costs(window)
        listed = costs if source == "analytics" else []
        return records.ReconciledWindow(
            window,
            hours=await asyncio.to_thread(hours_of, books, differences, listed, prices=prices),
            differences=differences,
            prices=list(audit_prices(costs, prices, window=window, source=source or "analytics")),
            prices_audited=source is not None,
            summary={
                "moment": best_moment(books.own_reported, books.recorded),
                "requests_reported": books.requests is not None,
                "costs": source,
            },
        )

    async def _books(self, window: records.Window) -> records.Books:
        wide = window.widened(_MARGIN)
        reported = await self.reports.usage(wide)
        requests = await self._requests(wide)
        own_keys = await self._own_keys()
        profiles = await self.find_profiles()
        async with self.database.snapshot() as reader:
            return records.Books(
                window=window,
                reported=reported,
                recorded=await _find_all_recorded(reader, wide),
                own_keys=own_keys,
                requests=requests,
                calls=await find_calls(reader, wide),
                unbilled=await find_unbilled(reader, wide),
                profiles=profiles,
            )

    async def _own_keys(self) -> frozenset[str]:
        if not self._key_ids:
            self._key_ids = await find_own_keys(self.reports, self.config)
        return self._key_ids

    async def _requests(self, window: records.Window) -> list[records.ReportedRequests] | None:
        try:
            # The provider reports minutes for 24 hours at most.
            return [row for part in window.days() for row in await self.reports.requests(part)]
        except ReportNotOffered as error:
            log.info("reconciliation.report_not_offered", reason=error.detail)
            return None

    async def _costs(
        self, window: records.Window
    ) -> tuple[Sequence[records.ListedCost], records.CostSource | None]:
        try:
            return await self.reports.list_prices(window), "analytics"
        except ReportNotOffered as error:
            log.info("reconciliation.report_not_offered", reason=error.detail)
        except ReportsUnavailable as error:
            log.warning("reconciliation.costs_unavailable", reason=error.detail)
            return [], None
        if window != records.Window(
            records.floor_to(window.start, records.DAY),
            records.floor_to(window.start, records.DAY) + records.DAY,
        ):
            return [], None
        try:
            return await self.reports.daily_costs(window), "cost_report"
        except ReportsUnavailable as error:
            log.warning("reconciliation.costs_unavailable", reason=error.detail)
            return [], None

    async def _with_receipts(self, differences: Sequence[records.Difference]) -> list[records.Difference]:
        """Name the receipts that a difference may be about: those with exactly its counts."""
        return [
            await self._with_candidates(each) if each.cause == "not_reported" else each
            for each in differences
        ]

    async def _with_candidates(self, difference: records.Difference) -> records.Difference:
        counts = tuple(-count for count in difference.counts)
        span = records.Window(difference.starting_at, difference.ending_at).widened(REACH)
        async with self.database.snapshot() as reader:
            found = await repository.find_equal_receipts(
                reader, span, difference.dimensions, counts, limit=_NAMED_RECEIPTS
            )
        if not found:
            return difference
        accounts = {AccountId(each.account_id) for each in found}
        account = accounts.pop() if len(accounts) == 1 else None
        return replace(
            difference,
            cause="doubled_receipt" if len(found) > 1 else "not_reported",
            account_id=difference.account_id or account,
            evidence={
                **difference.evidence,
                "equal_receipts": [
                    {"id": str(each.id), "source_reference": each.source_reference} for each in found
                ],
            },
        )


async def _find_all_recorded(reader: Reader, window: records.Window) -> list[records.RecordedUsage]:
    recorded = await repository.find_recorded(reader, window)
    after: tuple[datetime, UUID] | None = None
    while True:
        receipts = await repository.find_receipts_in_parts(reader, window, after=after, limit=_SLICE)
        recorded += [part for receipt in receipts for part in recorded_parts(receipt)]
        if len(receipts) < _SLICE:
            return recorded
        after = receipts[-1].used_at, receipts[-1].id
