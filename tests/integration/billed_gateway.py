"""A server's way from its agents to receipts: gateway, metering, receipt queue and delivery."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import Receipt
from app.billing.reports.service import BillingReports
from app.executors.metering import BilledMetering
from app.gateway.channel import Channel, ChannelLimits
from app.gateway.proxy import Gateway
from app.gateway.upstream import Upstream
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from app.usage.records import Attribution
from tests.factories import a_plan
from tests.integration.gateway_seam import AGENTS, PROVIDER_KEY
from tests.patience import PATIENCE_S

MODEL = "claude-sonnet-4-6"


@dataclass(frozen=True, slots=True)
class BilledGateway:
    """What one server has of its own: connections, journal, queue, gateway."""

    database: Database
    metering: BilledMetering
    gateway: Gateway
    agent: httpx.AsyncClient
    delivery: ReceiptDelivery

    def channel(self, key: KeyRecord, run_id: str, **limits: Any) -> Channel:
        """The channel of a run."""
        run = RunKey(key.account_id, RunId(run_id))
        plan = a_plan(run=run, model=MODEL, attribution=Attribution(key.id, "a:b", None))
        hooks = self.metering.hooks_for(plan, executor_type="claude_sdk")
        deadline = asyncio.get_running_loop().time() + 60
        return self.gateway.open_channel(run_id, ChannelLimits(deadline, **limits), hooks)

    async def call(self, channel: Channel, body: Any, **headers: str) -> int:
        """The status of a call through a channel."""
        url = f"{channel.url}/v1/messages"
        return (await self.agent.post(url, json=body, headers={**AGENTS, **headers})).status_code

    async def charged(self, run: RunKey) -> Sequence[Receipt]:
        """The receipts of a run whose channel is closed, once they are stored."""
        await self.metering.receipts.flush(run, within_s=PATIENCE_S)
        return await BillingReports(self.database).of_run(run)


@asynccontextmanager
async def a_billed_gateway(
    database: Database,
    provider_url: str,
    directory: Path,
    *,
    prices: PriceList | None = None,
    delivers: bool = True,
    **metering: Any,
) -> AsyncIterator[BilledGateway]:
    """Between an agent and this provider; without `delivers` receipts stay in the queue."""
    prices, journal = prices or PriceList(), Journal(directory, new_uuid())
    queue = ReceiptQueue(journal, prices)
    delivery = ReceiptDelivery(database, queue)
    working = asyncio.create_task(delivery.work()) if delivers else None
    async with (
        Upstream(base_url=provider_url, api_key=PROVIDER_KEY) as provider,
        Gateway(provider) as gateway,
        httpx.AsyncClient(
            trust_env=False, timeout=PATIENCE_S, limits=httpx.Limits(max_connections=None)
        ) as agent,
    ):
        billed = BilledMetering(queue, CreditLedger(database), prices, **metering)
        yield BilledGateway(database, billed, gateway, agent, delivery)
    if working is not None:
        working.cancel()
        await asyncio.wait({working})
    journal.close()
