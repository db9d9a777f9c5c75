"""RunDeletion: deletes contents of ended runs on request, and all that is older than its retention time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from app.errors import Conflict, Gone
from app.ids import RunKey
from app.platform.background import forever
from app.platform.db import Database
from app.platform.storage.service import StorageQuota
from app.runs.commands.service import RunNotFound
from app.runs.deletion.repository import (
    delete_contents,
    delete_events,
    lock_ended_run,
    lock_old_runs,
    lock_runs_with_old_events,
)
from app.runs.records import RunRecord

_EVERY_S = 60.0
_RUNS_AT_ONCE = 20


DeleteUnused: TypeAlias = Callable[[timedelta, int], Awaitable[int]]
"""Deletes at most so many conversations without a turn for that long; returns how many."""


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
    keep: timedelta | None
    """How long contents are stored after a run's end; None means for ever."""
    keep_events: timedelta | None = None
    """How long its events are; None: as long as the rest of its contents."""
    keep_conversations: timedelta | None = None
    """How long conversations are after their last turn, with the contents of their runs; None: for ever."""

    async def delete(self, run: RunKey) -> None:
        """Delete a run's contents; raises `RunNotFound`, `RunNotEnded`."""
        async with self.database.transaction() as tx:
            ended = await lock_ended_run(tx, run)
            if ended is None:
                raise RunNotFound
            if not ended:
                raise RunNotEnded
            await delete_contents(tx, run)

    async def delete_old(self) -> int:
        """Delete the contents of some runs past their retention time; returns how many runs."""
        if self.keep is None:
            return 0
        async with self.database.transaction() as tx:
            old = await lock_old_runs(tx, older_than=self.keep, most=_RUNS_AT_ONCE)
            for run in old:
                await delete_contents(tx, run)
        return len(old)

    async def delete_old_events(self) -> int:
        """Delete the events of some runs past their own retention time; returns how many runs."""
        if self.keep_events is None:
            return 0
        async with self.database.transaction() as tx:
            old = await lock_runs_with_old_events(tx, older_than=self.keep_events, most=_RUNS_AT_ONCE)
            for run in old:
                await delete_events(tx, run)
        return len(old)

    async def delete_old_conversations(self) -> int:
        """Delete some conversations past their retention time; returns how many."""
        if self.keep_conversations is None:
            return 0
        return await self.delete_unused(self.keep_conversations, _RUNS_AT_ONCE)

    async def sweep(self) -> None:
        """Delete old contents until cancelled; several servers may do so at once."""
        await forever(self._sweep, _EVERY_S, name="run deletion")

    async def _sweep(self) -> None:
        while await self.delete_old() == _RUNS_AT_ONCE:
            pass
        while await self.delete_old_events() == _RUNS_AT_ONCE:
            pass
        while await self.delete_old_conversations() == _RUNS_AT_ONCE:
            pass
        await self.storage.compact()
