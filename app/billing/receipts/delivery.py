"""ReceiptDelivery: writes queued receipts to the database, in batches."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

import structlog

from app.background import forever
from app.billing.receipts.queue import PendingReceipt, ReceiptQueue
from app.billing.receipts.repository import insert_receipts
from app.db import Database
from app.errors import Unavailable

log = structlog.get_logger(__name__)

BATCH = 500
"""Receipts of one statement. While a statement executes, the receipts of the next one collect."""

CLOSE_TIMEOUT_S = 3.0
"""How long a stopping server waits for the database; the remaining receipts stay in the journal."""

_RECOVERY_INTERVAL_S = 15.0
"""How often journals of processes that died are looked for."""


class ReceiptDelivery:
    """Delivers the receipts of a queue at least once; the database stores each of them once."""

    def __init__(self, database: Database, queue: ReceiptQueue) -> None:
        self._database = database
        self._queue = queue
        self._next_recovery = 0.0

    async def work(self) -> None:
        """Deliver until cancelled, beginning with the receipts of processes that died."""
        self._next_recovery = asyncio.get_running_loop().time()
        await forever(self._deliver_next, 0, name="receipts.deliver")

    async def aclose(self) -> None:
        """Deliver once more; the remaining receipts stay in the journal for the next process."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._deliver_all()
        except (TimeoutError, Unavailable):
            log.error("receipts.left_in_journal", receipts=len(self._queue))  # noqa: TRY400
        await self._queue.sync()

    async def _deliver_next(self) -> None:
        """Deliver what is queued; waits until something is, or it is time to look for journals to recover."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._next_recovery):
                await self._queue.wait_not_empty()
        self._queue.probe()
        if asyncio.get_running_loop().time() >= self._next_recovery:
            self._next_recovery += _RECOVERY_INTERVAL_S
            self._queue.recover()
        await self._deliver_all()

    async def _deliver_all(self) -> None:
        while batch := self._queue.first(BATCH):
            try:
                await self._insert(batch)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - one of them causes it: find it
                await self._deliver_one_by_one(batch)
            else:
                await self._queue.acknowledge(batch)

    async def _deliver_one_by_one(self, batch: Sequence[PendingReceipt]) -> None:
        """Deliver each in its own transaction: one that the database refuses must not block the others."""
        for each in batch:
            try:
                await self._insert([each])
            except Unavailable:
                raise
            except Exception:
                # It stays in the journal.
                log.critical("receipt.refused", fact=asdict(each.fact), exc_info=True)
                await self._queue.remove([each])
            else:
                await self._queue.acknowledge([each])

    async def _insert(self, batch: Sequence[PendingReceipt]) -> None:
        async with self._database.transaction() as tx:
            await insert_receipts(tx, [each.receipt for each in batch])
