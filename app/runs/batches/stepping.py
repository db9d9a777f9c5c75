"""BatchSteps: one step of a batch: count what has ended, start what may start.

The step is claimed by one process for a while. Items are marked as started in a short transaction, and their
runs are started outside any: a process that is killed in between leaves items without a run, which the next
step starts. The id of each run follows from its item, so that a start that is repeated joins the run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import structlog

from app import errors
from app.billing.receipts.records import RunTotals
from app.billing.reports.service import BillingReports
from app.ids import RunKey
from app.platform.background import run_to_completion
from app.platform.db import Database, Transaction
from app.requests.principal import AccountSuspended
from app.runs.batches import repository
from app.runs.batches.records import CANCELLED, MAX_USD, Batch, BatchConfig, StartedItem, may_start
from app.runs.commands.repository import request_cancels
from app.runs.commands.service import RunCommands
from app.runs.delegated.service import DelegatedRuns, StoredOrder

log = structlog.get_logger(__name__)

_PASSING = (errors.Unavailable, errors.TooMany, AccountSuspended)
_MEETS_ALL = (errors.Unauthenticated, errors.Forbidden, errors.PaymentRequired, errors.InsufficientStorage)
"""Errors that every further item would meet: the batch is stopped."""
_RETRY_S = 2.0
STARTS_PER_STEP = 16


@dataclass(frozen=True, slots=True)
class _Progress:
    """What is known of the started items of a batch."""

    settled: Sequence[StartedItem]
    """Those that count from now on: their runs have ended, and the receipts are there."""
    open: Sequence[StartedItem]
    totals: Mapping[str, RunTotals]

    def cost_of(self, items: Sequence[StartedItem]) -> Decimal:
        """What these items have cost so far."""
        return sum((self.totals[item.run.run_id].cost_usd for item in items), Decimal(0))

    @property
    def committed(self) -> Decimal:
        """What all items have cost, or may cost."""
        may_cost = sum((max(self.cost_of([item]), item.reserve_usd) for item in self.open), Decimal(0))
        return self.cost_of(self.settled) + may_cost


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is done once the transaction is over."""

    to_start: Sequence[StartedItem] = ()
    to_cancel: Sequence[RunKey] = ()


@dataclass(frozen=True, slots=True)
class BatchSteps:
    """Makes the steps of all batches; any number of processes may do so at once."""

    database: Database
    runs: DelegatedRuns
    commands: RunCommands
    billing: BillingReports
    config: BatchConfig

    async def make_one(self) -> bool:
        """Make the step that is due the longest; False if there is none, or this process starts no runs."""
        if not self.runs.is_accepting():
            return False
        async with self.database.write() as tx:
            batch = await repository.claim_batch(tx, lease=self.config.lease)
        if batch is None:
            return False
        with structlog.contextvars.bound_contextvars(batch_id=str(batch.id)):
            pause_s = await self._make(batch)
        async with self.database.write() as tx:
            await repository.release_batch(tx, batch, pause_s=pause_s)
        return True

    async def _make(self, batch: Batch) -> float:
        """Make the step of a claimed batch; returns how long to wait before the next one."""
        # Runs are started in half of the time: another process would start the same ones after it.
        until = asyncio.get_running_loop().time() + self.config.lease.total_seconds() / 2
        progress = await self._read(batch)
        async with self.database.transaction() as tx:
            if (locked := await repository.lock_batch(tx, batch.id, step=batch.step)) is None:
                return 0
            decision = await self._decide(tx, locked, progress)
        await self.commands.deliver_cancels(decision.to_cancel)
        has_active = any(item.run_status is not None and not item.has_ended for item in progress.open)
        for item in decision.to_start:
            if asyncio.get_running_loop().time() > until:
                break
            try:
                await self._start(batch, item)
                has_active = True
            except errors.AppError as error:
                # Credit that active runs have reserved may become free again.
                may_pass = isinstance(error, errors.PaymentRequired) and has_active
                if may_pass or isinstance(error, _PASSING):
                    log.warning("batch.delayed", reason=error.detail)
                    return error.retry_after_s or _RETRY_S
                if await self._refuse(batch, item, error):
                    break
        has_changed = progress.settled or decision.to_start
        return self.config.pause_s if has_changed else self.config.waiting_pause_s

    async def _read(self, batch: Batch) -> _Progress:
        async with self.database.read() as reader:
            items = await repository.started_items(reader, batch.id)
        totals = await self.billing.totals(batch.account_id, [item.run.run_id for item in items])
        within_s = self.config.receipts_within_s

        def is_settled(item: StartedItem) -> bool:
            is_billed = totals[item.run.run_id].receipts >= item.messages
            return item.has_ended and (is_billed or item.ended_for_s > within_s)

        settled = [item for item in items if is_settled(item)]
        return _Progress(settled, [item for item in items if item not in settled], totals)

    async def _decide(self, tx: Transaction, batch: Batch, progress: _Progress) -> _Decision:
        """Count what has ended, and mark what is to be started."""
        settled = [(item.position, str(item.run_status), None) for item in progress.settled]
        waiting = [item for item in progress.open if item.run_status is None]
        running = [item for item in progress.open if item.run_status is not None]
        if batch.stop_reason is not None:
            # None of them is being started: that would be by the process that has claimed the batch.
            settled += [(item.position, "cancelled", None) for item in waiting]
            waiting = []
        else:
            waiting += await self._next(tx, batch, progress)
        await repository.settle_items(tx, batch.id, settled, cost_usd=progress.cost_of(progress.settled))
        to_cancel: list[RunKey] = []
        if batch.stop_reason == CANCELLED:
            to_cancel = [item.run for item in running if not item.has_ended]
            await request_cancels(tx, to_cancel)
        if not waiting and not running and await repository.end_batch(tx, batch.id):
            log.info("batch.ended", items=batch.items, reason=batch.stop_reason)
        return _Decision(waiting, to_cancel)

    async def _next(self, tx: Transaction, batch: Batch, progress: _Progress) -> list[StartedItem]:
        """Mark the next items as started, as many as may be; or stop the batch, if its limit is reached."""
        free = batch.parallelism - sum(not item.has_ended for item in progress.open)
        room = await repository.room_for_batches(tx, batch.account_id, per_account=self.config.per_account)
        candidates = await repository.pending_items(
            tx, batch.id, most=max(0, min(free, room, STARTS_PER_STEP))
        )
        chosen: list[StartedItem] = []
        committed = batch.cost_usd + progress.committed
        for item in candidates:
            is_alone = not progress.open and not chosen
            if not may_start(batch.max_usd, committed, item.reserve_usd, is_alone=is_alone):
                break
            chosen.append(item)
            committed += item.reserve_usd
        if chosen:
            await repository.mark_started(tx, batch.id, [item.position for item in chosen])
        elif candidates and not progress.open:
            await repository.stop_batch(tx, batch.id, MAX_USD)
            log.info("batch.stopped", reason=MAX_USD)
        return chosen

    async def _start(self, batch: Batch, item: StartedItem) -> None:
        async def read() -> str | None:
            async with self.database.read() as reader:
                return await repository.item_request(reader, batch.id, item.position)

        order = StoredOrder(item.run, batch.api_key_id, f"batch:{batch.id}", item.bytes, read)
        try:
            await run_to_completion(self.runs.start(order))
        except errors.AppError:
            raise
        except Exception as error:
            log.exception("batch.start_failed", position=item.position)
            raise errors.AppError from error

    async def _refuse(self, batch: Batch, item: StartedItem, error: errors.AppError) -> bool:
        """Record that an item has no run; returns whether that stops the batch."""
        if await self.runs.exists(item.run):
            # What failed came after the start.
            return False
        stops = isinstance(error, _MEETS_ALL)
        async with self.database.transaction() as tx:
            if (locked := await repository.lock_batch(tx, batch.id, step=batch.step)) is None:
                return True
            await repository.settle_items(tx, batch.id, [(item.position, "refused", error.code)])
            if stops and locked.stop_reason is None:
                await repository.stop_batch(tx, batch.id, error.code)
                log.warning("batch.refused", reason=error.code)
        return stops
