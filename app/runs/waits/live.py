"""RunWaits: the stored calls of a run that this process executes."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.events import ResolvedBy
from app.executors.waiting.port import StoredCall
from app.ids import RunKey
from app.platform.clock.clock import Clock
from app.platform.db import Database
from app.runs.waits import repository
from app.streams.port import WriterFenced


@dataclass(frozen=True, slots=True)
class RunWaits:
    """Implements `Waits` on the database; each statement is fenced by the attempt."""

    database: Database
    run: RunKey
    attempt: int
    clock: Clock = field(default_factory=Clock)

    def now(self) -> datetime:
        return self.clock.database_now()

    async def open(self, call: StoredCall) -> None:
        async with self.database.write() as tx:
            if not await repository.insert_call(tx, self.run, call, attempt=self.attempt):
                raise WriterFenced

    async def resolve(
        self, call_id: str, resolved_by: ResolvedBy, answer: object = None
    ) -> tuple[ResolvedBy, Any] | None:
        async with self.database.transaction() as tx:
            if not await repository.lock_execution(tx, self.run, attempt=self.attempt):
                raise WriterFenced
            if await repository.resolve_call(tx, self.run, call_id, resolved_by=resolved_by, answer=answer):
                return resolved_by, answer
            found = await repository.find_call(tx, self.run, call_id)
        return None if found is None or found.resolved_by is None else (found.resolved_by, found.answer)

    async def resume(self) -> None:
        async with self.database.write() as tx:
            if not await repository.begin_parked(tx, self.run, attempt=self.attempt):
                raise WriterFenced
