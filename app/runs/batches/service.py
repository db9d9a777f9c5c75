"""BatchService: an account's batches."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID, uuid5

import structlog

from app.billing.receipts.records import RunTotals
from app.billing.reports.service import BillingReports
from app.errors import Conflict, NotFound
from app.ids import AccountId, ApiKeyId, new_uuid
from app.platform.background import AFTER_START_S, forever
from app.platform.clock.clock import Clock
from app.platform.concurrency.fair_semaphore import FairSemaphore
from app.platform.db import Database, Transaction
from app.platform.pagination import MAX_PAGE, PageRequest
from app.platform.postgres.statements import serialize
from app.platform.storage.records import Retention
from app.platform.storage.service import StorageQuota
from app.requests.principal import Principal
from app.runs.batches import repository
from app.runs.batches.lines import BatchLine
from app.runs.batches.records import CANCELLED, MAX_ACTIVE, Batch, BatchItem, BatchTerms, NewBatch
from app.runs.batches.requests import BatchRequests, CheckedBatch
from app.runs.commands.repository import request_cancels
from app.runs.commands.service import RunCommands
from app.runs.records import RunRecord
from app.runs.repository import find_runs

log = structlog.get_logger(__name__)

_EVERY_S = 60.0
_DELETED_AT_ONCE = 20


class BatchNotFound(NotFound):
    """This account has no batch with this id."""

    code = "batch_not_found"


class BatchKeyTaken(Conflict):
    """There already is a batch with this Idempotency-Key, created by a different request."""

    code = "batch_key_taken"


class TooManyBatches(Conflict):
    """This account has the maximum number of unfinished batches; wait for one, or cancel one."""

    code = "too_many_batches"


class BatchNotEnded(Conflict):
    """This batch has not ended; cancel it first."""

    code = "batch_not_ended"


@dataclass(frozen=True, slots=True)
class BatchOrder:
    """A request to create a batch."""

    terms: BatchTerms
    lines: Iterator[BatchLine] = field(repr=False)
    fingerprint: bytes
    """Equal for equal requests."""
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class ItemResult:
    """An item that has ended; without a run it was refused or never started."""

    item: BatchItem
    run: RunRecord | None
    charged: RunTotals


@dataclass(frozen=True, slots=True)
class BatchService:
    """Creates, lists, cancels and deletes batches, of one account at a time.

    Batches of other keys are treated as their runs are: cancelling and deleting them needs `runs:read`.
    """

    database: Database
    requests: BatchRequests
    commands: RunCommands
    billing: BillingReports
    storage: StorageQuota
    require_active_key: Callable[[Transaction, ApiKeyId], Awaitable[None]]
    """Raises for a revoked key, and blocks its revocation until the commit."""
    on_created: Callable[[], None]
    by_default: Retention
    """For how long ended batches are stored, where their account does not say less."""
    clock: Clock = field(default_factory=Clock)
    # Their requests may be large: more at once would leave the database no time for anything else.
    _stores: FairSemaphore = field(default_factory=lambda: FairSemaphore(2), init=False)

    async def check(self, caller: Principal, lines: Iterator[BatchLine]) -> CheckedBatch:
        """Check a batch without storing it; raises `GraphNotFound`, or `Invalid` naming line and field."""
        async with self._stores.slot(str(caller.account_id)):
            return await self.requests.check(caller, lines)

    async def create(self, caller: Principal, order: BatchOrder) -> Batch:
        """Create a batch, or return the one that the same request has created.

        Raises `BatchKeyTaken`, `ScopeMissing` if that would show what other keys created, `TooManyBatches`,
        `StorageFull`, `GraphNotFound`, and `Invalid` naming the line and its field.
        """
        key = order.idempotency_key
        # The same key always gives the same id, so no table of keys is needed.
        batch_id = new_uuid() if key is None else uuid5(caller.account_id, f"batch:{key}")
        if key is not None and (existing := await self._find(caller.account_id, batch_id)) is not None:
            return _joined(existing, order, caller)
        checked = await self.check(caller, order.lines)
        new = NewBatch(
            id=batch_id,
            account_id=caller.account_id,
            api_key_id=caller.api_key_id,
            graph_id=checked.graph_id,
            terms=order.terms,
            items=checked.items,
            request_hash=order.fingerprint,
        )
        async with self._stores.slot(str(caller.account_id)):
            created = await self._insert(new)
        if created is None:
            return _joined(await self.get(caller.account_id, batch_id), order, caller)
        log.info("batch.accepted", batch_id=str(batch_id), items=created.items)
        self.on_created()
        return created

    async def list_batches(self, account_id: AccountId, page: PageRequest) -> tuple[list[Batch], str | None]:
        """A page of the account's batches, newest first, and the cursor of the next page."""
        async with self.database.read() as reader:
            found = await repository.newest_batches(reader, account_id, page)
        return page.cut(found, lambda batch: (batch.created_at, batch.id))

    async def get(self, account_id: AccountId, batch: UUID) -> Batch:
        """One batch; raises `BatchNotFound`."""
        if (found := await self._find(account_id, batch)) is None:
            raise BatchNotFound
        return found

    async def cost_of(self, batch: Batch) -> Decimal:
        if batch.ended_at is not None:
            return batch.cost_usd
        async with self.database.read() as reader:
            items = await repository.started_items(reader, batch.id)
        totals = await self.billing.totals(batch.account_id, [item.run.run_id for item in items])
        return sum((each.cost_usd for each in totals.values()), batch.cost_usd)

    async def cancel(self, caller: Principal, batch: UUID) -> Batch:
        """Start no further item and cancel the runs of the others; one that has ended stays as it is.

        Raises `BatchNotFound`, `ScopeMissing`.
        """
        found = await self.get(caller.account_id, batch)
        caller.require_reading(found.api_key_id)
        async with self.database.transaction() as tx:
            locked = await repository.lock_batch(tx, batch)
            if locked is None or locked.ended_at is not None:
                return found if locked is None else locked
            await repository.stop_batch(tx, batch, CANCELLED)
            # Those that are being started at this moment are cancelled by the next step.
            running = [item.run for item in await repository.started_items(tx, batch) if not item.has_ended]
            await request_cancels(tx, running)
        await self.commands.deliver_cancels(running)
        return await self.get(caller.account_id, batch)

    async def results(self, batch: Batch) -> AsyncIterator[Sequence[ItemResult]]:
        """The items that have ended, in their order."""
        position = 0
        while items := await self._items_after(batch, position):
            position = items[-1].position
            ids = [item.run_id for item in items]
            async with self.database.read() as reader:
                found = await find_runs(reader, batch.account_id, ids)
            runs = {run.key.run_id: run for run in found}
            totals = await self.billing.totals(batch.account_id, ids)
            results = [ItemResult(item, runs.get(item.run_id), totals[item.run_id]) for item in items]
            yield [each for each in results if _has_ended(each)]

    async def delete(self, caller: Principal, batch: UUID) -> None:
        """Delete a batch that has ended, without its runs.

        Raises `BatchNotFound`, `ScopeMissing`, `BatchNotEnded`.
        """
        found = await self.get(caller.account_id, batch)
        caller.require_reading(found.api_key_id)
        # One that has ended stays so: nothing can begin between the two statements.
        if found.ended_at is None:
            raise BatchNotEnded
        async with self.database.transaction() as tx:
            await repository.delete_batch(tx, batch)

    async def delete_old(self) -> None:
        """Delete batches past the retention time until cancelled; several servers may do so at once."""
        await forever(self._delete_old, _EVERY_S, name="batch deletion", first_after_s=AFTER_START_S)

    async def _delete_old(self) -> None:
        deleted = _DELETED_AT_ONCE
        while deleted >= _DELETED_AT_ONCE:
            async with self.database.transaction() as tx:
                deleted = await repository.delete_old_batches(
                    tx, self.by_default, until=self.clock.now(), most=_DELETED_AT_ONCE
                )

    async def _insert(self, new: NewBatch) -> Batch | None:
        """Store a batch; None if its id was taken meanwhile."""
        async with self.database.transaction() as tx:
            await self.require_active_key(tx, new.api_key_id)
            await serialize(tx, "batches", new.account_id)
            if await repository.find_batch(tx, new.account_id, new.id) is not None:
                return None
            if await repository.count_active(tx, new.account_id) >= MAX_ACTIVE:
                raise TooManyBatches
            await self.storage.require_room(tx, new.account_id, sum(len(item.request) for item in new.items))
            return await repository.insert_batch(tx, new)

    async def _items_after(self, batch: Batch, position: int) -> list[BatchItem]:
        async with self.database.read() as reader:
            return await repository.items_after(reader, batch.id, position, most=MAX_PAGE)

    async def _find(self, account_id: AccountId, batch: UUID) -> Batch | None:
        async with self.database.read() as reader:
            return await repository.find_batch(reader, account_id, batch)


def _joined(existing: Batch, order: BatchOrder, caller: Principal) -> Batch:
    # First, because whether the requests are equal reveals something about the existing one.
    caller.require_reading(existing.api_key_id)
    if existing.request_hash != order.fingerprint:
        raise BatchKeyTaken
    return existing


def _has_ended(result: ItemResult) -> bool:
    return result.item.status != "started" or (result.run is not None and result.run.finished)
