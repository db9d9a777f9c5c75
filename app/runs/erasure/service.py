"""Erasures: delete what was said by and to an end user, wherever it is kept; receipts keep their numbers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from app.billing.pseudonyms.service import erase_from_receipts, forget, hash_of
from app.errors import NotFound
from app.ids import AccountId, RunKey
from app.platform.audit.records import Actor, Change
from app.platform.audit.repository import record_change
from app.platform.background import forever
from app.platform.db import Database, Transaction
from app.runs.commands.repository import request_cancel
from app.runs.conversations.service import ConversationBusy, ConversationService
from app.runs.deletion.repository import delete_contents
from app.runs.erasure import repository
from app.runs.erasure.records import Erasure
from app.streams.port import EventLog

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
_RUNS_AT_ONCE = 20
_RECEIPTS_AT_ONCE = 500


class ErasureNotFound(NotFound):
    """This account has no erasure with this id."""

    code = "erasure_not_found"


Stop = Callable[[Transaction, AccountId, str], Awaitable[None]]
"""Ends what would start runs for an end user."""

EraseFromDeliveries = Callable[[Transaction, AccountId, str, str], Awaitable[None]]
"""Replaces an end user by its hash in deliveries."""


@dataclass(frozen=True, slots=True)
class Erasures:
    """Every process works on all of them: each step is a transaction that locks the job."""

    database: Database
    events: EventLog
    conversations: ConversationService
    stops: Sequence[Stop]
    deliver_cancels: Callable[[Sequence[RunKey]], Awaitable[None]]
    erase_from_deliveries: EraseFromDeliveries
    _started: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, account_id: AccountId, end_user: str, *, by: Actor) -> Erasure:
        """Begin to erase an end user, or return the erasure that has begun."""
        async with self.database.transaction() as tx:
            erasure, is_new = await repository.insert_erasure(tx, account_id, end_user)
            if is_new:
                # Without the name, because the audit log is never changed.
                await record_change(tx, by, Change(account_id, "end_user.erased", str(erasure.id)))
        self._started.set()
        return erasure

    async def get(self, account_id: AccountId, erasure: UUID) -> Erasure:
        """The account's erasure with this id; raises `ErasureNotFound`."""
        async with self.database.read() as reader:
            if (found := await repository.find_erasure(reader, account_id, erasure)) is None:
                raise ErasureNotFound
        return found

    async def work(self) -> None:
        await forever(self._sweep, 0, name="erasures")

    async def _sweep(self) -> None:
        self._started.clear()
        async with self.database.read() as reader:
            jobs = await repository.open_erasures(reader)
        for job in jobs:
            # One that has got another turn meanwhile is stopped in the next sweep.
            with suppress(ConversationBusy):
                while await self._step(job):
                    pass
        with suppress(TimeoutError):
            async with asyncio.timeout(_EVERY_S):
                await self._started.wait()

    async def _step(self, job: Erasure) -> bool:
        """Erase a part; False if there is nothing to do at this moment."""
        if job.end_user is None or not await self._stop(job, job.end_user):
            return False
        async with self.database.transaction() as tx:
            if not await repository.lock_erasure(tx, job.id):
                return False
            for erase in (self._erase_conversation, self._erase_runs, self._erase_receipts):
                if await erase(tx, job, job.end_user):
                    return True
            is_erased = await repository.is_erased(tx, job)
            if is_erased and (hash_ := await forget(tx, job.account_id, job.end_user)) is not None:
                await self.erase_from_deliveries(tx, job.account_id, job.end_user, hash_)
                await repository.end_erasure(tx, job.id)
                log.info("erasure.ended", erasure_id=str(job.id))
        return False

    async def _stop(self, job: Erasure, end_user: str) -> bool:
        """Let nothing be started for the end user any more, and stop what was; False while that goes on."""
        async with self.database.transaction() as tx:
            if not await repository.lock_erasure(tx, job.id):
                return False
            # Only the labels, which are erased next, tell for whom they are.
            unbegun = await repository.delete_unbegun(tx, job.account_id, end_user)
            await repository.count_erased(tx, job.id, conversations=unbegun)
            for stop in self.stops:
                await stop(tx, job.account_id, end_user)
            left = await repository.stop_batch_items(tx, job.account_id, end_user)
        async with self.database.read() as reader:
            active = await repository.unfinished_runs(reader, job.account_id, end_user)
        for run in active:
            # Each for itself: together they and a heartbeat could wait for each other's rows.
            async with self.database.write() as tx:
                await request_cancel(tx, run)
        await self.deliver_cancels(active)
        return not active and not left

    async def _erase_conversation(self, tx: Transaction, job: Erasure, end_user: str) -> bool:
        if (state_key := await repository.next_conversation(tx, job.account_id, end_user)) is None:
            return False
        for run in await self.conversations.erase(tx, job.account_id, state_key):
            await self.events.erase(run)
        await repository.count_erased(tx, job.id, conversations=1)
        return True

    async def _erase_runs(self, tx: Transaction, job: Erasure, end_user: str) -> bool:
        if not (runs := await repository.lock_runs(tx, job.account_id, end_user, most=_RUNS_AT_ONCE)):
            return False
        await delete_contents(tx, runs)
        for run in runs:
            await self.events.erase(run)
        await repository.name_by_hash(tx, job.account_id, runs, await hash_of(tx, job.account_id, end_user))
        await repository.count_erased(tx, job.id, runs_=len(runs))
        return True

    async def _erase_receipts(self, tx: Transaction, job: Erasure, end_user: str) -> bool:
        erased = await erase_from_receipts(tx, job.account_id, end_user, most=_RECEIPTS_AT_ONCE)
        await repository.count_erased(tx, job.id, receipts=erased)
        return erased > 0
