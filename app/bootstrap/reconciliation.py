"""The comparison of receipts with the provider's reports, if there is an admin key."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from anyio.abc import TaskGroup

from app.auth.accounts import Accounts
from app.auth.provider_profiles import ProviderProfiles
from app.billing.prices.price_list import PriceList
from app.billing.reconciliation.calls.counter import CallCounter
from app.billing.reconciliation.provider.reports import ProviderReports
from app.billing.reconciliation.service import Reconciliation, ReconciliationConfig
from app.errors import OperatorError
from app.platform.db import Database
from app.platform.settings import Settings


class AdminKeyMissing(OperatorError):
    """ANTHROPIC_ADMIN_API_KEY is not set: the provider's reports cannot be read."""

    def __init__(self) -> None:
        super().__init__((type(self).__doc__ or "").strip())


@dataclass(frozen=True, slots=True)
class ProviderAccounting:
    """What connects the provider's reports with our accounts, calls and receipts."""

    calls: CallCounter
    profiles: ProviderProfiles
    reconciliation: Reconciliation | None

    def start(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self.calls.watch)
        tasks.start_soon(self.profiles.watch)
        if self.reconciliation is not None:
            tasks.start_soon(self.reconciliation.watch)


async def open_provider_accounting(
    settings: Settings, database: Database, prices: PriceList, *, stack: AsyncExitStack
) -> ProviderAccounting:
    """Open it for a server; without an admin key nothing is compared."""
    calls, profiles = CallCounter(database), ProviderProfiles(Accounts(database))
    stack.push_async_callback(calls.aclose)
    await profiles.refresh()
    reconciliation = None
    if settings.anthropic_admin_api_key is not None:
        reconciliation = await stack.enter_async_context(open_reconciliation(settings, database, prices))
    return ProviderAccounting(calls, profiles, reconciliation)


@asynccontextmanager
async def open_reconciliation(
    settings: Settings, database: Database, prices: PriceList
) -> AsyncIterator[Reconciliation]:
    """Open the provider's reports; raises `AdminKeyMissing`."""
    async with open_reports(settings) as reports:
        yield Reconciliation(
            database,
            prices,
            reports,
            config=reconciliation_config(settings),
            find_profiles=Accounts(database).find_provider_profiles,
        )


def open_reports(settings: Settings, **limits: Any) -> ProviderReports:
    """The provider's reports, with other limits of requests if given; raises `AdminKeyMissing`."""
    admin_key = settings.anthropic_admin_api_key
    if admin_key is None:
        raise AdminKeyMissing
    return ProviderReports(
        base_url=settings.anthropic_admin_base_url,
        admin_key=admin_key.get_secret_value(),
        network=settings.provider_network,
        **limits,
    )


def reconciliation_config(settings: Settings) -> ReconciliationConfig:
    """What the settings say about our keys and the provider's reports."""
    run_key = settings.anthropic_api_key
    return ReconciliationConfig(
        run_key=None if run_key is None else run_key.get_secret_value(),
        key_ids=settings.provider_key_ids,
        settle=timedelta(minutes=settings.reconcile_settle_minutes),
    )
