"""A provider with reports, receipts beside it, and what was planted between them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.billing.prices.model_price import ModelPrice, Rate
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.billing.reconciliation.calls.counter import CallCounter
from app.billing.reconciliation.provider.reports import ProviderReports
from app.billing.reconciliation.records import Difference, ReconciledWindow, Window
from app.billing.reconciliation.service import Reconciliation, ReconciliationConfig
from app.platform.db import Database
from app.simulator.script import in_turn
from app.simulator.server import RecordedMessage
from app.usage.provider import clean_usage, token_usage
from tests.factories import a_fact
from tests.provider.admin_reports import AnsweredCall
from tests.provider.simulator import ReportingSimulator

RUN_KEY, OTHER_KEY = "sk-ant-the-gateways-key", "sk-ant-another-program"
SONNET = "claude-sonnet-4-6"
CHEAP = ModelPrice(
    version="file 1",
    input=Rate(Decimal("1.5")),
    output=Rate(Decimal(15)),
    cache_read=Rate(Decimal("0.3")),
    cache_write_5m=Rate(Decimal("3.75")),
    cache_write_1h=Rate(Decimal(6)),
)
"""Half the price of plain input that the provider charges."""
USAGE = {"input_tokens": 1000, "output_tokens": 200, "cache_read_input_tokens": 5000}


@dataclass(slots=True)
class Bookkeeping:
    """Messages are answered by the provider, charged by us, or both."""

    database: Database
    simulator: ReportingSimulator
    key: KeyRecord
    prices: PriceList
    reconciliation: Reconciliation
    _messages: int = 0

    def answered(
        self, at: datetime, usage: Mapping[str, Any] = USAGE, *, model: str = SONNET, **fields: Any
    ) -> None:
        """The provider answers a call."""
        message = RecordedMessage("msg", model, dict(usage), final_usage=dict(usage))
        self.simulator.reports.calls.append(AnsweredCall(message, **{"api_key": RUN_KEY, **fields}, at=at))

    async def charged(
        self,
        at: datetime,
        usage: Mapping[str, Any] = USAGE,
        *,
        prices: PriceList | None = None,
        **fields: Any,
    ) -> str:
        """A message gets its receipt; returns its run/attempt/message."""
        self._messages += 1
        reported = clean_usage(dict(usage))
        values = {"usage": token_usage(reported), "reported": reported, **fields}
        fact = a_fact(values.pop("key", self.key), f"msg_{self._messages}", at=at, **values)
        charge = (prices or self.prices).charge(BilledUsage.of(fact), at=at)
        basis = "unpriced" if charge.unpriced else fact.basis
        async with self.database.transaction() as tx:
            inserted = await insert_receipts(tx, [NewReceipt.of(fact, charge, basis)])
        assert len(inserted.charged) == 1
        return fact.source_reference

    async def both(
        self, at: datetime, usage: Mapping[str, Any] = USAGE, *, model: str = SONNET, **fields: Any
    ) -> None:
        """The provider answers a call, and it is charged."""
        self.answered(at, usage, model=model)
        await self.charged(at, usage, model=model, **fields)

    async def count_calls(self, at: datetime, sent: int) -> None:
        """So many calls leave through the gateway."""
        counter = CallCounter(self.database, now=lambda: at)
        for _ in range(sent):
            counter.count_sent(SONNET)
        await counter.flush()

    async def compared(self, day: datetime) -> ReconciledWindow:
        """Compare one day."""
        window = Window(day, day + timedelta(days=1))
        (result,) = [each async for each in self.reconciliation.compare(window)]
        return result

    async def unexplained(self, day: datetime) -> list[Difference]:
        """What a day's comparison cannot explain."""
        return [each for each in (await self.compared(day)).differences if not each.is_explained]


@asynccontextmanager
async def bookkeeping(
    database: Database, key: KeyRecord, *, prices: PriceList | None = None, **config: Any
) -> AsyncIterator[Bookkeeping]:
    """A provider's reports, and nothing in them yet."""
    own = prices or PriceList()
    async with (
        ReportingSimulator(in_turn()) as simulator,
        ProviderReports(
            base_url=simulator.url, admin_key=simulator.reports.admin_key, first_pause_s=0
        ) as reports,
    ):
        reconciliation = Reconciliation(
            database,
            own,
            reports,
            config=ReconciliationConfig(**{"run_key": RUN_KEY, **config}),
            find_profiles=Accounts(database).find_provider_profiles,
        )
        yield Bookkeeping(database, simulator, key, own, reconciliation)
