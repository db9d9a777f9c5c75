"""QueuedRuns: commands to runs that no process executes: those that are queued, or wait for answers."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, assert_never

import structlog

from app.conversations.grants.records import GrantKey
from app.conversations.grants.repository import insert_grant
from app.events import Interrupted, StopKind, StopState
from app.executors.approvals import ARGS_SCHEMA, granted_tool, require_arguments
from app.executors.inbox import RETRY_AFTER_S, MessageLimits, MessageQueueFull
from app.executors.port import ABORTED
from app.executors.waiting.records import Decision
from app.graphs.catalog import GraphCatalog
from app.ids import ApiKeyId, RunKey
from app.platform.db import Database, Transaction
from app.platform.json_schema.checker import SchemaChecker
from app.platform.json_schema.document import SchemaDocument
from app.platform.storage.service import StorageQuota
from app.requests.run_request import PermissionMode
from app.runs.closing import RunCloser, RunEnd
from app.runs.commands import records
from app.runs.commands.answered_calls import AnswerCommand, answer_of, answered_call, resolved_events
from app.runs.commands.answers import NotApplied
from app.runs.commands.application import check_mode
from app.runs.dispatch.records import QueuedCommand
from app.runs.dispatch.repository import (
    insert_queued_command,
    lock_unexecuted_run,
    queued_commands_of,
    take_queued_commands,
)
from app.runs.records import RunRecord
from app.runs.repository import store_interruption
from app.runs.waits.repository import calls_of, find_call, grant_calls, resolve_call
from app.tools.argument_check import check_arguments
from app.tools.modern_schema import modern_schema

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
    schemas: SchemaChecker

    async def apply(self, run: RunKey, command: records.Command) -> dict[str, Any]:
        """End the run, or store the command for its start; returns the result.

        Raises `NotApplied` if it is not queued any more, and what the command itself raises.
        """
        match command:
            case records.Stop(kind=kind):
                if not await self.stop(run, kind):
                    raise NotApplied("not_here")
            case records.Decide() | records.SubmitToolResult() | records.AnswerQuestion():
                await self._answer(run, command)
            case records.Send():
                await self._store_message(run, command)
                return {"position": None}
            case records.ChangeMode():
                await self._store_mode(run, command)
            case _:
                assert_never(command)
        return {}

    async def stop(self, run: RunKey, kind: StopKind) -> bool:
        """End a run that is queued or waits; False if it is not any more."""
        async with self.database.transaction() as tx:
            record = await lock_unexecuted_run(tx, run)
            if record is None:
                return False
            # As a worker would have published it.
            stopped = [Interrupted(kind=kind, state=state) for state in _STATES]
            calls = await calls_of(tx, run) if record.is_parked else []
            end = RunEnd(record, ABORTED, attempt=record.attempt, events=[*stopped, *resolved_events(calls)])
            state = {"kind": kind, "state": _STATES[-1], "at": datetime.now(UTC).isoformat()}
            await store_interruption(tx, run, state, attempt=record.attempt)
            await take_queued_commands(tx, run)
            ended_at = await self.closer.store(tx, end)
        if ended_at is None:
            return False
        await self.closer.publish(end, ended_at)
        return True

    async def _check_args(self, run: RunKey, command: AnswerCommand) -> None:
        """Raise `Invalid` for changed arguments that the schema of the tool refuses, if it is stored."""
        if not isinstance(command, records.Decide) or command.args is None:
            return
        async with self.database.read() as reader:
            call = await find_call(reader, run, command.request_id)
        if call is not None and call.resolved_by is None and ARGS_SCHEMA in call.request:
            document = SchemaDocument.of(modern_schema(call.request[ARGS_SCHEMA]))
            accept = partial(check_arguments, self.schemas, document, owner=str(run.account_id))
            await require_arguments(accept, command.args, tool_id=call.request["toolName"])

    async def _answer(self, run: RunKey, command: AnswerCommand) -> None:
        """Answer a call; the same answer twice counts once. The run is queued if no other call waits."""
        await self._check_args(run, command)
        call_id, kinds = answered_call(command)
        async with self.database.transaction() as tx:
            record = await self._lock(tx, run)
            call = await find_call(tx, run, call_id)
            kind = next((each for each in kinds if call is not None and call.kind == each.name), None)
            if call is None or kind is None:
                raise kinds[0].unknown
            answer = answer_of(command, call)
            if call.resolved_by is not None:
                if kind.resolution(call.resolved_by, call.answer).answer != answer:
                    raise kind.answered
                return
            dumped = kind.answers.dump_python(answer, mode="json")
            await resolve_call(tx, run, call_id, resolved_by="decided", answer=dumped)
            if isinstance(answer, Decision) and answer.grant_by is not None:
                await self._grant(tx, record, granted_tool(call.request), by=answer.grant_by)
            await self.closer.queue.release_answered(tx, run)

    async def _grant(self, tx: Transaction, record: RunRecord, tool_id: str, *, by: ApiKeyId) -> None:
        if record.state_key is not None:
            key = GrantKey(record.key.account_id, record.state_key, record.graph_id, tool_id)
            await insert_grant(tx, key, by=by)
            await grant_calls(tx, record.key, tool_id)

    async def _store_message(self, run: RunKey, command: records.Send) -> None:
        async with self.database.transaction() as tx:
            await self._lock(tx, run)
            waiting = [each for each in await queued_commands_of(tx, run) if each.message_id is not None]
            if any(each.message_id == command.message_id for each in waiting):
                return
            size = sum(each.size for each in waiting)
            # A single message may always wait: the size of its request is limited.
            if len(waiting) >= self.limits.count or (
                waiting and size + records.size_of(command) > self.limits.size
            ):
                raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)
            await self._store(tx, run, command)

    async def _store_mode(self, run: RunKey, command: records.ChangeMode) -> None:
        async with self.database.transaction() as tx:
            record = await self._lock(tx, run)
            spec = self.graphs.get(record.graph_id)
            modes: list[PermissionMode | None] = [each.mode for each in await queued_commands_of(tx, run)]
            current = next((mode for mode in reversed(modes) if mode is not None), spec.permission_mode)
            check_mode(command, spec, current=current)
            await self._store(tx, run, command)

    async def _lock(self, tx: Transaction, run: RunKey) -> RunRecord:
        if (record := await lock_unexecuted_run(tx, run)) is None:
            raise NotApplied("not_here")
        return record

    async def _store(self, tx: Transaction, run: RunKey, command: records.Command) -> None:
        stored = QueuedCommand(run, command.model_dump(mode="json", by_alias=True))
        await self.storage.require_room(tx, run.account_id, records.size_of(command))
        await insert_queued_command(tx, stored)
