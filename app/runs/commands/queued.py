"""QueuedRuns: commands to runs that no process executes yet."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_never

import structlog

from app.events import Interrupted, StopKind, StopState
from app.executors.approvals import PermissionNotFound
from app.executors.client_calls import ClientToolCallNotFound
from app.executors.inbox import RETRY_AFTER_S, MessageLimits, MessageQueueFull
from app.executors.port import ABORTED
from app.executors.waiting.questions import QuestionNotFound
from app.graphs.catalog import GraphCatalog
from app.ids import RunKey
from app.platform.db import Database, Transaction
from app.platform.storage.service import StorageQuota
from app.requests.runs import PermissionMode
from app.runs.closing import RunCloser, RunEnd
from app.runs.commands.answers import NotApplied
from app.runs.commands.application import check_mode
from app.runs.commands.records import (
    AnswerQuestion,
    ChangeMode,
    Command,
    Decide,
    Send,
    Stop,
    SubmitToolResult,
    size_of,
)
from app.runs.dispatch.records import QueuedCommand
from app.runs.dispatch.repository import (
    insert_queued_command,
    lock_queued_run,
    queued_commands_of,
    take_queued_commands,
)
from app.runs.records import RunRecord
from app.runs.repository import store_interruption

log = structlog.get_logger(__name__)

_STATES: tuple[StopState, ...] = ("requested", "acknowledged", "stopped")


@dataclass(frozen=True, slots=True)
class QueuedRuns:
    """Works on their rows: a worker that claims one meanwhile waits for it, or has been faster."""

    database: Database
    closer: RunCloser
    graphs: GraphCatalog
    storage: StorageQuota
    limits: MessageLimits
    """For the messages that wait for one run's start."""

    async def apply(self, run: RunKey, command: Command) -> dict[str, Any]:
        """End the run, or store the command for its start; returns the result.

        Raises `NotApplied` if it is not queued any more, and what the command itself raises.
        """
        match command:
            case Stop(kind=kind):
                if not await self.stop(run, kind):
                    raise NotApplied("not_here")
            case Decide():
                raise PermissionNotFound
            case SubmitToolResult():
                raise ClientToolCallNotFound
            case AnswerQuestion():
                raise QuestionNotFound
            case Send():
                await self._store_message(run, command)
                return {"position": None}
            case ChangeMode():
                await self._store_mode(run, command)
            case _:
                assert_never(command)
        return {}

    async def stop(self, run: RunKey, kind: StopKind) -> bool:
        """End a queued run; False if it is not queued any more."""
        async with self.database.transaction() as tx:
            record = await lock_queued_run(tx, run)
            if record is None:
                return False
            # As a worker would have published it.
            stopped = [Interrupted(kind=kind, state=state) for state in _STATES]
            end = RunEnd(record, ABORTED, attempt=record.attempt, events=stopped)
            state = {"kind": kind, "state": _STATES[-1], "at": datetime.now(UTC).isoformat()}
            await store_interruption(tx, run, state, attempt=record.attempt)
            await take_queued_commands(tx, run)
            ended_at = await self.closer.store(tx, end)
        if ended_at is None:
            return False
        await self.closer.publish(end, ended_at)
        return True

    async def _store_message(self, run: RunKey, command: Send) -> None:
        async with self.database.transaction() as tx:
            await self._lock(tx, run)
            waiting = [each for each in await queued_commands_of(tx, run) if each.message_id is not None]
            if any(each.message_id == command.message_id for each in waiting):
                return
            size = sum(each.size for each in waiting)
            # A single message may always wait: the size of its request is limited.
            if len(waiting) >= self.limits.count or (waiting and size + size_of(command) > self.limits.size):
                raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)
            await self._store(tx, run, command)

    async def _store_mode(self, run: RunKey, command: ChangeMode) -> None:
        async with self.database.transaction() as tx:
            record = await self._lock(tx, run)
            spec = self.graphs.get(record.graph_id)
            modes: list[PermissionMode | None] = [each.mode for each in await queued_commands_of(tx, run)]
            current = next((mode for mode in reversed(modes) if mode is not None), spec.permission_mode)
            check_mode(command, spec, current=current)
            await self._store(tx, run, command)

    async def _lock(self, tx: Transaction, run: RunKey) -> RunRecord:
        if (record := await lock_queued_run(tx, run)) is None:
            raise NotApplied("not_here")
        return record

    async def _store(self, tx: Transaction, run: RunKey, command: Command) -> None:
        stored = QueuedCommand(run, command.model_dump(mode="json", by_alias=True))
        await self.storage.require_room(tx, run.account_id, size_of(command))
        await insert_queued_command(tx, stored)
