"""RunQueue: the queue of runs, which is their rows in the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from app.ids import AccountId, RunKey
from app.platform.db import Database, Transaction
from app.runs.dispatch import repository
from app.runs.dispatch.insertion.records import AtOnce, StoredAtOnce
from app.runs.dispatch.insertion.repository import insert_run, insert_run_at_once
from app.runs.dispatch.limits import DispatchLimits
from app.runs.dispatch.records import ClaimedRun, ClaimedRuns, DueWork
from app.runs.evidence.records import NewEvidence
from app.runs.records import NewRun, RunRecord
from app.runs.waits.repository import requeue_answered


@dataclass(frozen=True, slots=True)
class RunQueue:
    """The queue as this process uses it. A queued run is held (for its turn, a limit, its time), or ready."""

    database: Database
    process_id: UUID
    limits: DispatchLimits

    async def insert(self, tx: Transaction, run: NewRun) -> RunRecord | None:
        """Insert a run; None if its id is taken. Raises `QueueFull`."""
        return await insert_run(tx, run, limits=self.limits)

    async def insert_at_once(self, tx: Transaction, run: NewRun, given: AtOnce) -> StoredAtOnce:
        return await insert_run_at_once(tx, run, given, limits=self.limits)

    async def end(
        self,
        tx: Transaction,
        run: RunKey,
        values: Mapping[str, Any],
        *,
        evidence: Sequence[NewEvidence],
        is_debited: bool,
        may_share: bool,
    ) -> datetime | None:
        """See `end_run`."""
        return await repository.end_run(
            *(tx, run, values),
            evidence=evidence,
            limits=self.limits,
            process_id=self.process_id,
            is_debited=is_debited,
            may_share=may_share,
        )

    async def release_after(self, tx: Transaction, run: RunKey, conversation: str | None) -> None:
        """A run of this conversation ends in this transaction: release those that waited for it.

        Call it before the account's credit is changed: every transaction locks in this order.
        """
        await repository.release_runs(
            tx,
            run.account_id,
            limits=self.limits,
            conversation=conversation,
            process_id=self.process_id,
        )

    async def release_answered(self, tx: Transaction, run: RunKey) -> bool:
        """Queue a waiting run, whose row is locked, if none of its calls waits any more.

        Like `release_after`, also because one that waits counts for no limit of the account.
        """
        is_answered = await requeue_answered(tx, run)
        await self.release_after(tx, run, None)
        return is_answered

    async def claim(self, count: int, *, graphs: Sequence[str], workers: int = 1) -> ClaimedRuns:
        """Assign up to so many ready runs of these graphs; of few, the share of one of so many workers."""
        async with self.database.write() as tx:
            return await repository.claim_runs(
                tx, self.process_id, count=count, graphs=graphs, workers=workers
            )

    async def claim_run(self, run: RunKey, *, graphs: Sequence[str]) -> ClaimedRun | None:
        """Assign this run to this process, if it is ready and of these graphs."""
        async with self.database.write() as tx:
            return await repository.claim_run(tx, self.process_id, run, graphs=graphs)

    async def is_active(self, run: RunKey) -> bool:
        async with self.database.read() as reader:
            return await repository.is_active_run(reader, run)

    async def has_ready(self) -> bool:
        async with self.database.read() as reader:
            return await repository.has_ready_runs(reader)

    async def due(self) -> DueWork:
        """Runs that may be released although no run has ended, and queued runs to cancel."""
        async with self.database.read() as reader:
            return await repository.due_work(reader, self.limits)

    async def release(self, account_id: AccountId, conversation: str | None) -> None:
        async with self.database.transaction() as tx:
            await repository.release_runs(tx, account_id, limits=self.limits, conversation=conversation)
