"""ClientToolRuns: the runs of foreign chats that wait for the results of client tools."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.events import ClientToolCall, ToolCallResult
from app.executors.client_calls import ClientToolCallAnswered, ClientToolCallNotFound, ClientToolResult
from app.executors.inbox import RunEnded
from app.executors.port import NO_SCHEMAS, RunSchemas
from app.graphs.catalog import GraphCatalog
from app.ids import RunKey
from app.platform.db import Database
from app.requests.client_tools import ClientTool, client_tools_within_limits
from app.requests.principal import Principal
from app.runs.chats import Chat
from app.runs.commands.records import SubmitToolResult
from app.runs.commands.service import RunCommands
from app.runs.conversations.repository import newest_run_of
from app.runs.conversations.service import ConversationService
from app.runs.records import RunRecord
from app.runs.requests.schema_preparation import SchemaPreparation
from app.runs.service import RunService
from app.streams.port import LogEntry


@dataclass(frozen=True, slots=True)
class AnsweredRun:
    """A run some of whose calls a client answers."""

    record: RunRecord
    after: int
    """The position of the last call that its client has: it has seen everything before."""
    calls: frozenset[str]
    """The ids of the answered calls."""
    log: Sequence[LogEntry]
    """Its events from the first, before the answers."""


@dataclass(frozen=True, slots=True)
class ClientToolRuns:
    """Finds the runs of a chat by their calls, and answers them."""

    database: Database
    runs: RunService
    commands: RunCommands
    conversations: ConversationService
    graphs: GraphCatalog
    schemas: SchemaPreparation

    async def usable(
        self, caller: Principal, described: Sequence[Any]
    ) -> tuple[Sequence[ClientTool], RunSchemas]:
        """The tools that can be offered to a model of those that a foreign client describes; their schemas.

        Also where the graph takes none: the run's warning names them.
        """
        if not (tools := client_tools_within_limits(described)):
            return tools, NO_SCHEMAS
        schemas = await self.schemas.usable(tools, account_id=caller.account_id)
        return [tool for tool in tools if tool.name in schemas.client_tools], schemas

    async def find(
        self, caller: Principal, chat: Chat, call_ids: Collection[str], *, shown: Collection[str] = ()
    ) -> AnsweredRun | None:
        """The run of a chat that made one of these calls of client tools; None if none of its latest has.

        `shown`: the calls that its client has besides. Raises `ScopeMissing` if the caller may not read it.
        """
        for record in await self._latest(caller, chat):
            found = await self._answered(record, call_ids, shown)
            if found is not None:
                caller.require_reading(record.api_key_id, record.labels.end_user)
                return found
        return None

    async def find_in(
        self, caller: Principal, chat: Chat, run: RunKey, *, call_ids: Collection[str]
    ) -> AnsweredRun | None:
        """The same for one run; None if there is no such run in this chat."""
        async with self.database.read() as reader:
            record = await newest_run_of(reader, run.account_id, chat.state_key, run_id=run.run_id)
        if record is None or record.graph_id != chat.graph_id:
            return None
        caller.require_reading(record.api_key_id, record.labels.end_user)
        return await self._answered(record, call_ids)

    async def answer(
        self,
        answered: AnsweredRun,
        results: Mapping[str, ClientToolResult],
        *,
        last: Collection[str] = (),
    ) -> None:
        """Return the results to the run; those that come too late, or a second time, have no effect.

        Raises `ClientToolCallAnswered` for those of the calls `last` if the call has another result.
        """
        given = (each.event for each in answered.log if isinstance(each.event, ToolCallResult))
        known = {event.tool_call_id: event.result for event in given}
        for call_id in answered.calls & set(last) & known.keys():
            if known[call_id] != results[call_id].kept.visible:
                raise ClientToolCallAnswered
        for call_id in answered.calls:
            command = SubmitToolResult(
                tool_call_id=call_id, result=results[call_id].result, is_error=results[call_id].is_error
            )
            # The stream shows what the call ended with, and what the model made of it.
            with suppress(RunEnded, ClientToolCallNotFound):
                try:
                    await self.commands.submit(answered.record.key, command)
                except ClientToolCallAnswered:
                    if call_id in last:
                        raise

    async def answer_left(
        self, caller: Principal, chat: Chat, results: Mapping[str, ClientToolResult]
    ) -> None:
        """Return the results that a client posts with its next message to the run that waits for them.

        That run is not cancelled: what its model makes of them comes before the message. Raises
        `ScopeMissing` if the caller may not read it.
        """
        graph = self.graphs.find(chat.graph_id)
        if not results or graph is None or not graph.client_tools:
            return
        for record in await self.conversations.active_runs(caller.account_id, chat.state_key):
            answered = await self._answered(record, results)
            if answered is not None and record.graph_id == chat.graph_id:
                caller.require_reading(record.api_key_id, record.labels.end_user)
                await self.answer(answered, results)

    async def _latest(self, caller: Principal, chat: Chat) -> list[RunRecord]:
        """The chat's active runs, then its latest one, which may have ended."""
        active = await self.conversations.active_runs(caller.account_id, chat.state_key)
        async with self.database.read() as reader:
            newest = await newest_run_of(reader, caller.account_id, chat.state_key)
        known = [*active, *([newest] if newest is not None else [])]
        return [record for record in known if record.graph_id == chat.graph_id]

    async def _answered(
        self, record: RunRecord, call_ids: Collection[str], shown: Collection[str] = ()
    ) -> AnsweredRun | None:
        log = await self.runs.events(record.key)
        calls = {
            event.tool_call_id: position for position, event, _ in log if isinstance(event, ClientToolCall)
        }
        answered = frozenset(calls.keys() & set(call_ids))
        if not answered:
            return None
        return AnsweredRun(
            record, max(calls[each] for each in answered | (calls.keys() & set(shown))), answered, log
        )
