"""ChatRuns: the runs that answer the messages of a chat; a message that is posted again finds its run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias
from uuid import uuid5

from app.errors import Conflict
from app.executors.approvals import PermissionDecided
from app.executors.inbox import RunEnded
from app.ids import AccountId, RunId, RunKey
from app.principal import Principal
from app.requests import GraphRunRequest
from app.runs.commands.records import Decide
from app.runs.commands.service import RunCommands, RunNotFound
from app.runs.conversations.service import ConversationService
from app.runs.records import RunRecord
from app.runs.service import RunIdTaken, RunService
from app.telemetry.trace_context import CallerTrace

BuildRequest: TypeAlias = Callable[[str | None, bool], GraphRunRequest]
"""Builds the request from a run id and whether it includes the earlier messages of the chat."""


class MessageChanged(Conflict):
    """The content of this message has changed since it was posted; fork the conversation to edit it."""

    code = "message_changed"


class AnswerStands(Conflict):
    """This message has been answered successfully; fork the conversation to get another answer."""

    code = "answer_stands"


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat with one graph; `state_key` names its conversation."""

    graph_id: str
    state_key: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A user's message, and whether a failed answer to it is to be repeated."""

    chat: Chat
    message_id: str
    regenerate: bool
    build_request: BuildRequest


class ChatRuns:
    """Starts, finds and controls the runs of chats."""

    def __init__(self, runs: RunService, commands: RunCommands, conversations: ConversationService) -> None:
        self._runs = runs
        self._commands = commands
        self._conversations = conversations

    async def start(
        self,
        caller: Principal,
        message: ChatMessage,
        *,
        request_id: str,
        idempotency_key: str | None,
        caller_trace: CallerTrace | None = None,
    ) -> RunRecord:
        """Start the run that answers a message, or join it.

        Raises `MessageChanged`, `AnswerStands` and the errors of `RunService.start`.
        """
        run_id = None if idempotency_key else await self._run_id(caller, message)
        has_history = await self._conversations.has_history(caller.account_id, message.chat.state_key)
        # A message posted again may have started the conversation, and was sent with its history then.
        for with_history in (not has_history, has_history):
            with suppress(RunIdTaken):
                return await self._runs.start(
                    caller,
                    message.build_request(run_id, with_history),
                    request_id=request_id,
                    idempotency_key=idempotency_key,
                    caller_trace=caller_trace,
                )
        raise MessageChanged

    async def decide(
        self, caller: Principal, chat: Chat, run: RunKey, *, decisions: Sequence[Decide]
    ) -> None:
        """Apply decisions to a run of this chat; those that come too late have no effect.

        Raises `RunNotFound`, `ScopeMissing`, `PermissionNotFound`.
        """
        record = await self._runs.get(run)
        if Chat(record.graph_id, record.state_key or "") != chat:
            raise RunNotFound
        caller.require_reading(record.api_key_id)
        for decision in decisions:
            # The stream shows the earlier decision.
            with suppress(RunEnded, PermissionDecided):
                await self._commands.submit(run, decision)

    async def active_runs(self, caller: Principal, chat: Chat) -> list[RunRecord]:
        """Running and waiting runs of this chat, oldest first."""
        runs = await self._conversations.active_runs(caller.account_id, chat.state_key)
        return [run for run in runs if run.graph_id == chat.graph_id]

    async def stop(self, caller: Principal, chat: Chat) -> RunRecord | None:
        """Cancel the running and waiting runs of this chat; returns the last one, None without any."""
        runs = await self.active_runs(caller, chat)
        # Last first, so that no waiting run starts meanwhile.
        stopped = [await self._commands.stop(run.key, "cancel") for run in reversed(runs)]
        return stopped[0] if stopped else None

    async def _run_id(self, caller: Principal, message: ChatMessage) -> RunId:
        """The id of the message's latest answer, or of the next one if that has failed and is repeated."""
        ids = answer_ids(caller.account_id, message)
        run_id = next(ids)
        while message.regenerate:
            try:
                run = await self._runs.get(RunKey(caller.account_id, run_id))
            except RunNotFound:
                break
            caller.require_reading(run.api_key_id)
            if run.status == "succeeded":
                raise AnswerStands
            if not run.finished:
                break
            run_id = next(ids)
        return run_id


def answer_ids(account_id: AccountId, message: ChatMessage) -> Iterator[RunId]:
    """Yields without end the run ids of a message's answers: derived from the message, one per repetition."""
    chat = message.chat
    answer_id = uuid5(account_id, f"{chat.graph_id}\n{chat.state_key}\n{message.message_id}")
    while True:
        yield RunId(str(answer_id))
        answer_id = uuid5(answer_id, "again")
