"""What tests of webhooks share: registered receivers, charged messages, and what is kept of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from app.auth.records import KeyRecord
from app.billing.credit.ledger import usd
from app.billing.prices.price_list import Charge
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.platform.clock.clock import Clock
from app.platform.db import Database, Transaction
from app.platform.pagination import PageRequest
from app.platform.ssrf_guard import AddressPolicy
from app.platform.telemetry.service import Telemetry
from app.webhooks.delivery_worker import DeliveryConfig, DeliveryWorker
from app.webhooks.message import EVENTS, WebhookEvent
from app.webhooks.records import Delivery, Registration, Webhook
from app.webhooks.sender import WebhookSender
from app.webhooks.service import Webhooks
from tests.factories import a_fact
from tests.integration.statements import rows, until

AT_ONCE = timedelta(0)
QUICK = DeliveryConfig(retry_schedule=(AT_ONCE,) * 3, poll_interval_s=0.02, lease=timedelta(seconds=30))


def webhooks_over(database: Database) -> Webhooks:
    """The service, where loopback may be called."""
    return Webhooks(database, AddressPolicy(allow_private=True))


async def register(
    database: Database,
    key: KeyRecord,
    url: str = "http://127.0.0.1:9/hook",
    events: Sequence[WebhookEvent] = EVENTS,
    *,
    token: str | None = None,
    **fields: Any,
) -> tuple[Webhook, str]:
    """A webhook of this key's account, and its secret."""
    registration = Registration(url, tuple(events), **fields)
    return await webhooks_over(database).register(key.account_id, registration, token=token)


async def charge(database: Database, key: KeyRecord, *messages: str, credits_: int = 45_000) -> None:
    """Receipts of these messages, in one transaction."""
    async with database.transaction() as tx:
        await charge_within(tx, key, *messages, credits_=credits_)


async def charge_within(tx: Transaction, key: KeyRecord, *messages: str, credits_: int = 45_000) -> None:
    """The same, in somebody's transaction."""
    price = Charge(usd(credits_), credits_, price_version="test")
    await insert_receipts(tx, [NewReceipt.of(a_fact(key, each), price, "final") for each in messages])


@asynccontextmanager
async def delivering(
    database: Database,
    *,
    config: DeliveryConfig = QUICK,
    addresses: AddressPolicy | None = None,
    call_s: float = 5.0,
    clock: Clock | None = None,
    telemetry: Telemetry | None = None,
) -> AsyncIterator[DeliveryWorker]:
    """A deliverer at work, as a server process has one; leaving it is as sudden as a kill."""
    async with WebhookSender(addresses or AddressPolicy(allow_private=True), call_s=call_s) as sender:
        deliverer = DeliveryWorker(database, sender, config=config, clock=clock, telemetry=telemetry)
        working = asyncio.create_task(deliverer.work())
        try:
            yield deliverer
        finally:
            working.cancel()
            await asyncio.wait({working})


async def deliveries(database: Database, webhook: Webhook) -> list[Delivery]:
    """What is kept of a webhook's deliveries, oldest first."""
    found, _ = await webhooks_over(database).deliveries(webhook.account_id, str(webhook.id), PageRequest(200))
    return found[::-1]


async def payloads(database: Database) -> list[dict[str, Any]]:
    """What is to be delivered to anybody, oldest first."""
    found = await rows(database, "SELECT payload FROM webhook_deliveries ORDER BY created_at, payload::text")
    return [row.payload for row in found]


async def settled(database: Database, webhook: Webhook, **wanted: Any) -> list[Delivery]:
    """Wait until nothing is pending, or every delivery is as wanted."""

    async def is_so() -> bool:
        found = await deliveries(database, webhook)
        if wanted:
            return all(getattr(each, name) == value for each in found for name, value in wanted.items())
        return all(each.status != "pending" for each in found)

    await until(is_so)
    return await deliveries(database, webhook)


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)
