"""Opens the webhooks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from app.platform.clock.clock import Clock
from app.platform.db import Database
from app.platform.metrics.webhooks import WebhookMetrics
from app.platform.settings import Settings
from app.platform.ssrf_guard import AddressPolicy
from app.platform.telemetry.service import Telemetry
from app.webhooks.delivery_worker import DeliveryWorker
from app.webhooks.sender import WebhookSender
from app.webhooks.service import Webhooks


@asynccontextmanager
async def open_webhooks(
    settings: Settings,
    database: Database,
    *,
    delivers: bool,
    clock: Clock,
    metrics: WebhookMetrics,
    telemetry: Telemetry,
) -> AsyncIterator[Webhooks]:
    """Deliver webhooks while the body runs, if it `delivers`; interrupted calls are made again later."""
    async with (
        AddressPolicy(allow_private=settings.webhook_allow_private) as addresses,
        WebhookSender(addresses, network=settings.network) as sender,
        anyio.create_task_group() as tasks,
    ):
        if delivers:
            worker = DeliveryWorker(database, sender, clock=clock, metrics=metrics, telemetry=telemetry)
            tasks.start_soon(worker.work)
        yield Webhooks(database, addresses)
        tasks.cancel_scope.cancel()
