"""An agent, the gateway, the scripted provider and the receipts, over loopback HTTP and without a CLI."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import httpx

from app.auth.records import KeyRecord
from app.billing.prices.price_list import PriceList
from app.billing.receipts.records import Receipt
from app.billing.reports.service import BillingReports
from app.executors.claude_agent.meters.comparing_meter import ComparingMeter
from app.executors.metering import BilledMetering, channel_limits
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.simulator.script import Answer, ApiRequest, Reply
from app.simulator.server import Simulator
from tests.factories import a_plan, an_account
from tests.integration.billed_gateway import BilledGateway, a_billed_gateway

AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """One message of an agent."""

    reply: Reply
    model: str
    streamed: bool = True


@dataclass(frozen=True, slots=True)
class PricedWire:
    """What runs of one account need."""

    simulator: Simulator
    gateway: BilledGateway
    key: KeyRecord

    @property
    def metering(self) -> BilledMetering:
        """With its ledger, prices and receipts."""
        return self.gateway.metering

    async def bill(self, run_id: str, asked: Sequence[Asked]) -> list[Receipt]:
        """Send these messages as one run; returns their receipts in the same order."""
        self.simulator.responder = lambda request: _answer_of(request, asked)
        plan = a_plan(run=RunKey(self.key.account_id, RunId(run_id)), model=asked[0].model)
        plan = replace(plan, attribution=replace(plan.attribution, api_key_id=self.key.id))
        hooks = self.metering.hooks_for(plan, executor_type="claude_sdk")
        limits = replace(channel_limits(plan), deadline=math.inf)
        channel = self.gateway.gateway.open_channel(run_id, limits, hooks)
        places = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(
            *(self._send(channel.url, number, each, places) for number, each in enumerate(asked))
        )
        await self.gateway.gateway.close_channel(channel)
        for fact in ComparingMeter(plan, channel).finish():
            self.metering.receipts.record(fact)
        found = {receipt.usage_unit_id: receipt for receipt in await self.gateway.charged(plan.run)}
        assert len(found) == len(asked)
        return [found[each.reply.message_id] for each in asked]

    async def receipts(self, run_id: str) -> Sequence[Receipt]:
        """All receipts of a run, with adjustments."""
        return await BillingReports(self.gateway.database).of_run(RunKey(self.key.account_id, RunId(run_id)))

    async def _send(self, url: str, number: int, asked: Asked, places: asyncio.Semaphore) -> None:
        body = {
            "model": asked.model,
            "max_tokens": 64_000,
            "stream": asked.streamed,
            "messages": [{"role": "user", "content": str(number)}],
        }
        # A message that is cut off breaks the connection.
        async with places:
            with suppress(httpx.TransportError):
                await self.gateway.agent.post(f"{url}/v1/messages", json=body)


@asynccontextmanager
async def a_priced_wire(database: Database, directory: Path, prices: PriceList) -> AsyncIterator[PricedWire]:
    """Everything between an agent and the receipts of a new account."""
    async with (
        Simulator(_unscripted) as simulator,
        a_billed_gateway(database, simulator.url, directory / "journal", prices=prices) as gateway,
    ):
        yield PricedWire(simulator, gateway, await an_account(database))


def _unscripted(_request: ApiRequest) -> Answer:
    raise AssertionError


def _answer_of(request: ApiRequest, asked: Sequence[Asked]) -> Answer:
    return asked[int(request.last_text)].reply


def total_of(receipts: Sequence[Receipt]) -> Decimal:
    """The sum of receipts, with adjustments."""
    return sum((receipt.cost_usd for receipt in receipts), Decimal(0))
