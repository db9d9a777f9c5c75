"""ReceiptDelivery: writes queued receipts to the database, in batches."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias
from uuid import UUID

import structlog

from app.billing.receipts.open_messages.repository import lock_open_messages
from app.billing.receipts.queue import PendingReceipt, ReceiptQueue
from app.billing.receipts.records import ChargedMessage, InsertedReceipts, NewReceipt
from app.billing.receipts.repository import find_charged, insert_receipts
from app.errors import Unavailable
from app.ids import RunKey
from app.platform.background import forever
from app.platform.db import Database, DatabaseUnavailable, StatementFailed, Transaction
from app.platform.logs.dependency import DependencyLog
from app.platform.metrics.receipts import ReceiptMetrics, StoredReceipt

log = structlog.get_logger(__name__)

BATCH = 1000
"""Receipts of one statement. While a statement executes, the receipts of the next one collect. A statement
locks the accounts of its receipts for about 0.08 ms each."""

CLOSE_TIMEOUT_S = 3.0
"""How long a stopping server waits for the database; the remaining receipts stay in the journal."""

_RECOVERY_INTERVAL_S = 15.0
"""How often journals of processes that died are looked for."""

_KEPT_S = 60.0
"""How late a replica may be that takes over from the database, so that no receipt is missing in it."""

REFUSED_INTERVAL_S = 300.0
"""How often receipts that the database refuses are tried again."""

SYNC_INTERVAL_S = 1.0
"""How often the journal is synced to disk: a power failure loses no more than what it recorded since."""

_MOST_FAILURES = 3
"""Receipts that are tried one by one: after so many failures, the others would fail, too."""

_PASSES = 5
"""After so many failures in a row that name no value, receipts are tried one by one nevertheless."""

DeliveryState: TypeAlias = Literal["ok", "delayed", "refused", "damaged"]
"""Of the receipts that are not in the database: none is late; they wait for the database; it refuses some; or
files of the journal are damaged or cannot be read. The first that applies, in the order of this sentence
after `ok`."""


_delivery_log = partial(
    DependencyLog,
    unavailable="receipts.delivery_failed",
    available="receipts.delivery_resumed",
    level=logging.ERROR,
    each_reason=True,
)


@dataclass(slots=True)
class ReceiptDelivery:
    """Delivers the receipts of a queue at least once; the database stores each of them once.

    Whatever the database answers, a receipt is tried again until it is stored: at once with a backoff, or
    now and then if its values are refused.
    """

    database: Database
    queue: ReceiptQueue
    refused_interval_s: float = REFUSED_INTERVAL_S
    on_stored: Callable[[Sequence[NewReceipt]], None] = lambda _: None
    """Gets each receipt of this queue that is charged, once, when it is stored."""
    metrics: ReceiptMetrics = field(default_factory=ReceiptMetrics)
    problem: str | None = None
    """Why receipts cannot be delivered now; None while they can."""
    _log: DependencyLog = field(default_factory=_delivery_log)
    _next_recovery: float = 0.0
    _next_retry: float = 0.0
    _failures: int = 0
    _stored: deque[tuple[float, PendingReceipt]] = field(default_factory=deque)
    """What is stored and not confirmed, with the time of storing, oldest first."""

    @property
    def state(self) -> DeliveryState:
        """What an operator should look at."""
        if self.problem is not None:
            return "delayed"
        if self.queue.refused:
            return "refused"
        return "damaged" if self.queue.damaged_files else "ok"

    async def work(self) -> None:
        """Deliver until cancelled, beginning with the receipts of processes that died."""
        self._next_recovery = asyncio.get_running_loop().time()
        self._next_retry = self._next_recovery + self.refused_interval_s
        await forever(self._deliver_next, 0, name="receipts.deliver")

    async def keep_synced(self) -> None:
        """Sync the journal now and then, until cancelled."""
        await forever(self.queue.sync, SYNC_INTERVAL_S, name="receipts.sync")

    async def aclose(self) -> None:
        """Deliver once more; the remaining receipts stay in the journal for the next process."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._deliver_all()
        except (TimeoutError, Unavailable):
            log.error("receipts.left_in_journal", receipts=len(self.queue))  # noqa: TRY400
        await self.queue.sync()

    async def _deliver_next(self) -> None:
        """Deliver what is queued; waits until something is, or it is time for a periodic task."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(self._next_recovery, self._next_retry)):
                await self.queue.wait_not_empty()
        self.queue.probe()
        now = asyncio.get_running_loop().time()
        if is_due := now >= self._next_recovery:
            self._next_recovery = now + _RECOVERY_INTERVAL_S
            self.queue.recover()
        if now >= self._next_retry:
            self._next_retry = now + self.refused_interval_s
            self.queue.retry_refused()
        try:
            await self._deliver_all()
            if is_due:
                await self.confirm()
        except DatabaseUnavailable as error:
            self._note_problem(error.reason)
            raise
        self._note_problem(None)

    async def confirm(self, *, kept_s: float = _KEPT_S) -> None:
        """Queue again what was stored `kept_s` ago and is not there: a replica without it has taken over.

        The journal does not have it any more.
        """
        until = time.monotonic() - kept_s
        while batch := [each for at, each in islice(self._stored, BATCH) if at <= until]:
            charged = await self._find_charged(batch)
            for each in batch:
                self._stored.popleft()
                if each.receipt.source not in charged:
                    log.error("receipt.delivered_again", source_reference=each.fact.source_reference)
                    self.queue.record(each.fact)

    async def _deliver_all(self) -> None:
        while batch := self.queue.first(BATCH):
            try:
                await self._insert(batch)
            except DatabaseUnavailable:
                self._failures += 1
                if self._failures < _PASSES:
                    raise
                await self._deliver_one_by_one(batch)
            except Exception:  # noqa: BLE001 - one of them may cause it: find it
                await self._deliver_one_by_one(batch)
            else:
                await self.queue.acknowledge(batch)
            self._failures = 0

    async def _deliver_one_by_one(self, batch: Sequence[PendingReceipt]) -> None:
        """Deliver each in its own transaction: one that cannot be stored must not block the others."""
        failed: list[DatabaseUnavailable] = []
        for each in batch:
            try:
                await self._insert([each])
            except DatabaseUnavailable as error:
                self.queue.postpone(each)
                failed.append(error)
                if len(failed) == _MOST_FAILURES:
                    break
            except StatementFailed as error:
                # It stays in the journal, and is tried again later.
                log.critical("receipt.refused", fact=asdict(each.fact), reason=str(error))
                await self.queue.set_aside(each)
            except Exception as error:
                log.critical("receipt.refused", fact=asdict(each.fact), reason=repr(error), exc_info=True)
                await self.queue.set_aside(each)
            else:
                await self.queue.acknowledge([each])
        if failed:
            raise failed[-1]

    async def _insert(self, batch: Sequence[PendingReceipt]) -> None:
        has_rows = any(each.from_row for each in batch)
        try:
            async with self.database.transaction() if has_rows else self.database.write() as tx:
                inserted = await _store(tx, batch)
            new = inserted.charged | inserted.fenced
            known = [each for each in batch if each.receipt.id not in new]
            charged = await self._find_charged(known)
        except StatementFailed as error:
            if error.by_values:
                raise
            # Nothing is wrong with the receipts.
            raise DatabaseUnavailable.because(str(error)) from error
        for each in known:
            if each.from_row:
                continue
            # Before it is acknowledged: otherwise the journal would no longer have it.
            self.queue.charge_excess(each.fact, charged=charged[each.receipt.source].usage)
        # Also those that `debit_undelivered` has stored: then the stored one has the same id.
        fenced = {each.receipt_id for each in charged.values() if each.is_fenced} | inserted.fenced
        own = {each.receipt_id for each in charged.values() if not each.is_fenced} | inserted.charged
        for each in batch:
            if each.receipt.id in fenced:
                log.error("receipt.fenced", source_reference=each.fact.source_reference)
        stored = [each for each in batch if each.receipt.id in own]
        self.on_stored([each.receipt for each in stored])
        self._count(stored)

    def _count(self, stored: Sequence[PendingReceipt]) -> None:
        now = time.monotonic()
        for each in stored:
            self._stored.append((now, each))
            lag_s = None if each.ended_at is None else now - each.ended_at
            self.metrics.receipt_stored(_counted(each.receipt, lag_s))

    async def _find_charged(
        self, known: Sequence[PendingReceipt]
    ) -> dict[tuple[UUID, str, str], ChargedMessage]:
        if not known:
            return {}
        async with self.database.read() as reader:
            return await find_charged(reader, [each.receipt for each in known])

    def _note_problem(self, problem: str | None) -> None:
        if problem is None:
            self._log.worked()
        else:
            self._log.failed(problem, receipts=len(self.queue))
        self.problem = problem


async def debit_undelivered(tx: Transaction, queue: ReceiptQueue, run: RunKey) -> None:
    """Store the queued receipts of a run whose credit is released in the same transaction.

    Released before it is debited, the credit could be spent by another process. The receipts stay queued: the
    delivery finds them stored.
    """
    if receipts := queue.receipts_of(run):
        await _store(tx, receipts)


async def _store(tx: Transaction, batch: Sequence[PendingReceipt]) -> InsertedReceipts:
    """Insert receipts, those of rows only if the rows are still there."""
    rows = [each.fact.key for each in batch if each.from_row]
    # One that is gone was removed by its own process, which charges the message or has voided it.
    remaining = await lock_open_messages(tx, rows) if rows else ()
    receipts = [each.receipt for each in batch if not each.from_row or each.fact.key in remaining]
    return await insert_receipts(tx, receipts)


def _counted(receipt: NewReceipt, lag_s: float | None) -> StoredReceipt:
    return StoredReceipt(
        receipt.model,
        receipt.basis,
        receipt.origin,
        usage=receipt.usage,
        charged_credits=receipt.charged_credits,
        cost_usd=receipt.cost_usd,
        lag_s=lag_s,
    )
