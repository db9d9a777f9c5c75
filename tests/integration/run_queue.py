"""The queue of runs on PostgreSQL, with workers that are rows only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from app.auth.records import KeyRecord
from app.conversations.repository import take_turn
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.db import Database, NothingStored, Transaction
from app.runs.dispatch.limits import DispatchLimits
from app.runs.dispatch.queue import RunQueue
from app.runs.dispatch.records import Worker
from app.runs.records import NewRun, RunRecord
from app.runs.recovery.repository import record_worker
from app.runs.repository import find_run, finish_values
from tests.factories import a_final, a_new_turn, an_account

GRAPH = "claude_agents:assistant"


@dataclass
class Queue:
    """One worker's view of the queue; the keys are those of accounts by name."""

    database: Database
    limits: DispatchLimits = field(default_factory=lambda: DispatchLimits(1000))
    process_id: UUID = field(default_factory=new_uuid)

    @property
    def queue(self) -> RunQueue:
        return RunQueue(self.database, self.process_id, self.limits)

    def another(self) -> "Queue":
        """The same queue in another process."""
        return Queue(self.database, self.limits)

    async def join(self, places: int, **fields: Any) -> None:
        """Become a worker."""
        worker = Worker(self.process_id, "1", places, 0, draining=False, lease_s=15.0)
        async with self.database.write() as tx:
            await record_worker(tx, Worker(**{**_fields(worker), **fields}))

    async def post(
        self,
        key: KeyRecord,
        run_id: str,
        *,
        chat: str | None = None,
        at_once: bool = False,
        priority: int = 3,
        start_after: datetime | None = None,
        graph: str = GRAPH,
    ) -> RunRecord:
        """Accept a run."""
        async with self.database.transaction() as tx:
            conversation = None
            if chat is not None:
                conversation = await take_turn(tx, key.account_id, a_new_turn(chat))
            new = self.new(
                *(key, run_id),
                conversation=conversation,
                starts_at_once=at_once,
                priority=priority,
                start_after=start_after,
                graph_id=graph,
            )
            record = await self.queue.insert(tx, new)
        assert record is not None
        return record

    def new(self, key: KeyRecord, run_id: str, **fields: Any) -> NewRun:
        """A run that is not accepted yet."""
        return NewRun(
            **{
                "key": RunKey(key.account_id, RunId(run_id)),
                "api_key_id": key.id,
                "graph_id": GRAPH,
                "model": "m",
                "request": "{}",
                "question": "",
                "request_hash": b"",
                "request_id": None,
                "process_id": self.process_id,
                **fields,
            }
        )

    async def claim(self, count: int = 100, *graphs: str) -> list[str]:
        """Run ids that this worker claims."""
        claimed = await self.queue.claim(count, graphs=graphs or [GRAPH])
        return [each.run.key.run_id for each in claimed.runs]

    async def end(self, key: KeyRecord, run_id: str) -> None:
        """A run of this worker ends."""
        try:
            async with self.database.write() as tx:
                await self.end_in(tx, key, run_id, may_share=True)
        except NothingStored:
            async with self.database.write() as tx:
                await self.end_in(tx, key, run_id, may_share=False)

    async def end_in(self, tx: Transaction, key: KeyRecord, run_id: str, *, may_share: bool) -> None:
        """The same in a transaction."""
        run = RunKey(key.account_id, RunId(run_id))
        record = await find_run(tx, run)
        assert record is not None
        values = finish_values(record.attempt, a_final(run_id), None, skills=(), events=())
        assert await self.queue.end(*(tx, run, values), evidence=(), is_debited=True, may_share=may_share)

    async def held(self) -> dict[str, str | None]:
        """What each queued run waits for."""
        rows = await self.rows("SELECT run_id, held_for FROM runs WHERE status = 'queued' ORDER BY run_id")
        return {row.run_id: row.held_for for row in rows}

    async def active(self, account_id: AccountId) -> int:
        """How many runs of an account are ready or running."""
        (row,) = await self.rows("SELECT active_runs(:account) AS runs", account=account_id)
        runs: int = row.runs
        return runs

    async def rows(self, statement: str, **parameters: object) -> Sequence[Any]:
        """Rows of a statement."""
        async with self.database.read() as reader:
            return (await reader.execute(text(statement), parameters)).all()

    async def execute(self, statement: str, **parameters: object) -> None:
        """A statement that changes something."""
        async with self.database.write() as tx:
            await tx.execute(text(statement), parameters)

    async def an_account(self, name: str) -> KeyRecord:
        """The first key of a new account."""
        return await an_account(self.database, name=name)


def _fields(worker: Worker) -> dict[str, Any]:
    return {name: getattr(worker, name) for name in Worker.__dataclass_fields__}
