"""RunDeletion: deletes contents of ended runs on request, and all that is older than its retention time."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeAlias

from app.errors import Conflict, Gone
from app.ids import RunKey
from app.platform.background import AFTER_START_S, forever
from app.platform.clock.clock import Clock
from app.platform.db import Database, Transaction
from app.platform.storage.records import Retention
from app.platform.storage.service import StorageQuota
from app.runs.commands.service import RunNotFound
from app.runs.deletion import repository
from app.runs.evidence.repository import delete_evidence
from app.runs.records import RunRecord

_EVERY_S = 60.0
_RUNS_AT_ONCE = 20


DeleteUnused: TypeAlias = Callable[[Retention, datetime, int], Awaitable[int]]
"""Deletes some conversations past their retention time; returns how many."""

_LockOld: TypeAlias = Callable[..., Awaitable[list[RunKey]]]
_Delete: TypeAlias = Callable[[Transaction, Sequence[RunKey]], Awaitable[None]]


class RunNotEnded(Conflict):
    """This run has not ended; cancel it first."""

    code = "run_not_ended"


class RunDeleted(Gone):
    """The contents of this run were deleted."""

    code = "run_deleted"


def with_contents(record: RunRecord) -> RunRecord:
    """The run; raises `RunDeleted` if its contents were deleted."""
    if record.contents_deleted_at is not None:
        raise RunDeleted
    return record


@dataclass(frozen=True, slots=True)
class RunDeletion:
    """Deletes requests, answers, events and files. Runs and receipts stay: a run id is used once."""

    database: Database
    storage: StorageQuota
    delete_unused: DeleteUnused
    by_default: Retention
    """For how long contents are kept where their account does not say less."""
    clock: Clock = field(default_factory=Clock)

    async def delete(self, run: RunKey) -> None:
        """Delete a run's contents; raises `RunNotFound`, `RunNotEnded`."""
        async with self.database.transaction() as tx:
            ended = await repository.lock_ended_run(tx, run)
            if ended is None:
                raise RunNotFound
            if not ended:
                raise RunNotEnded
            await repository.delete_contents(tx, [run])

    async def delete_old(self) -> int:
        """Delete the contents of some runs past their retention time; returns how many runs."""
        lock = partial(repository.lock_old_runs, by_default=self.by_default)
        return await self._delete_each(lock, repository.delete_contents)

    async def delete_old_events(self) -> int:
        """Delete the events of some runs past their own retention time; returns how many runs."""
        lock = partial(repository.lock_runs_with_old_events, by_default=self.by_default)
        return await self._delete_each(lock, repository.delete_events)

    async def delete_old_evidence(self) -> int:
        """Delete the evidence of some runs past its own retention time; returns how many runs."""
        return await self._delete_each(repository.lock_runs_with_old_evidence, delete_evidence)

    async def delete_old_conversations(self) -> int:
        """Delete some conversations past their retention time; returns how many."""
        return await self.delete_unused(self.by_default, self.clock.now(), _RUNS_AT_ONCE)

    async def sweep(self) -> None:
        """Delete old contents until cancelled; several servers may do so at once."""
        await forever(self._sweep, _EVERY_S, name="run deletion", first_after_s=AFTER_START_S)

    async def _delete_each(self, lock: _LockOld, delete: _Delete) -> int:
        async with self.database.transaction() as tx:
            if old := await lock(tx, until=self.clock.now(), most=_RUNS_AT_ONCE):
                await delete(tx, old)
        return len(old)

    async def _sweep(self) -> None:
        for delete_some in (
            self.delete_old,
            self.delete_old_events,
            self.delete_old_evidence,
            self.delete_old_conversations,
        ):
            while await delete_some() >= _RUNS_AT_ONCE:
                pass
        await self.storage.compact()
