"""Queues whose receipts are delivered, as in a server process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import NewReceipt
from app.ids import new_uuid
from app.platform.db import Database


@asynccontextmanager
async def a_delivery(
    database: Database,
    directory: Path,
    *,
    refused_interval_s: float = 0.2,
    on_stored: Callable[[Sequence[NewReceipt]], None] = lambda _: None,
) -> AsyncIterator[tuple[ReceiptQueue, ReceiptDelivery]]:
    """With short segments of the journal, and soon another try for what was refused."""
    journal = Journal(directory, new_uuid(), segment_bytes=4096)
    queue = ReceiptQueue(journal, PriceList())
    delivery = ReceiptDelivery(database, queue, refused_interval_s=refused_interval_s, on_stored=on_stored)
    working = asyncio.create_task(delivery.work())
    try:
        yield queue, delivery
    finally:
        working.cancel()
        await asyncio.wait({working})
        await delivery.aclose()
        journal.close()


@asynccontextmanager
async def delivered_queue(
    database: Database, directory: Path, *, refused_interval_s: float = 0.2
) -> AsyncIterator[ReceiptQueue]:
    async with a_delivery(database, directory, refused_interval_s=refused_interval_s) as (queue, _):
        yield queue
