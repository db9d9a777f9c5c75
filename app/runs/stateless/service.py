"""StatelessChats: finds the conversation of a posted history that names none, by what it contains."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Unpack
from uuid import UUID, uuid5

from app.errors import AppError
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.requests.principal import Principal
from app.runs.chats import Chat, ChatMessage, ChatRuns
from app.runs.commands.service import RunNotFound
from app.runs.conversations.service import (
    ConversationBusy,
    ConversationNotFound,
    ConversationService,
    NothingToFork,
)
from app.runs.records import RunRecord
from app.runs.requests.posted import Posting, RunIdTaken, has_same_key, joined
from app.runs.service import id_of_key
from app.runs.stateless.records import GivenAnswer, LastAnswer
from app.runs.stateless.repository import given_answer, given_answers

_NEXT = UUID("7c2d5a52-6d0c-4a2b-9d5f-0f2f5b3b9b11")
"""Of the id of the run that begins a conversation, or continues it after another one."""


@dataclass(frozen=True, slots=True)
class StatelessChats:
    """Starts the runs of clients that post all messages with each request, and no ids.

    Two requests never cancel each other, and never share a run, however equal they are, unless they have the
    same `Idempotency-Key`.
    """

    database: Database
    chats: ChatRuns
    conversations: ConversationService

    async def posted_before(
        self, caller: Principal, state_key: str | None = None, **posting: Unpack[Posting]
    ) -> RunRecord | None:
        """The run that the same request with the same `Idempotency-Key` has started; None without any.

        `state_key`: of the conversation that it names, whose first run has an id of its own. Raises what
        `RunService.posted_before` does.
        """
        runs, fingerprint = self.chats.runs, posting.get("fingerprint")
        if (found := await runs.posted_before(caller, **posting)) is not None:
            return found
        if state_key is None or fingerprint is None:
            return None
        with suppress(RunNotFound):
            first = await runs.get(RunKey(caller.account_id, first_run(caller.account_id, state_key)))
            return (
                joined(caller, first, fingerprint) if has_same_key(first.request_hash, fingerprint) else None
            )
        return None

    async def start(
        self,
        caller: Principal,
        opening: str,
        message_in: Callable[[str], ChatMessage],
        answer: LastAnswer | None,
        **posting: Unpack[Posting],
    ) -> RunRecord:
        """Start the run that answers the last message.

        It continues the conversation that gave `answer`, if that is its last one; otherwise a copy of it up
        to there; a new conversation with all of the posted history if none did. `opening` is the same for
        histories that begin alike; `message_in` makes the message, given the key of its conversation.

        Raises the errors of `ChatRuns.start_as`.
        """
        found = None if answer is None else await self._find(caller, opening, answer)
        if found is not None and answer is not None:
            message_in = _after(found.run_id, answer.place, message_in)
            if found.is_last and (record := await self._continue(caller, found, message_in, **posting)):
                return record
            # Perhaps it is followed by the run of this very request, posted twice at once.
            if (again := await self.chats.runs.posted_before(caller, **posting)) is not None:
                return again
        message = message_in(f"{opening}.{new_uuid().hex}")
        # A copy is a fork, which only keys that may read can continue.
        if found is not None and caller.reads_all:
            with suppress(ConversationNotFound, ConversationBusy, NothingToFork):
                return await self._start_in_copy(caller, found, message, **posting)
        return await self.start_new(caller, message, **posting)

    async def start_after(
        self,
        caller: Principal,
        previous: RunRecord,
        message_in: Callable[[str], ChatMessage],
        **posting: Unpack[Posting],
    ) -> RunRecord:
        """The same where the client names the run before; `message_in` places the message after it.

        Keys that may not read copies go on in the conversation itself, on another branch.

        Raises the errors of `ChatRuns.start_as`, `ConversationNotFound`, `ConversationBusy`,
        `NothingToFork`.
        """
        async with self.database.read() as reader:
            found = await given_answer(reader, previous)
        if found.is_last and (record := await self._continue(caller, found, message_in, **posting)):
            return record
        if (again := await self.chats.runs.posted_before(caller, **posting)) is not None:
            return again
        if caller.reads_all:
            message = message_in(f"copy-{new_uuid().hex}")
            return await self._start_in_copy(caller, found, message, **posting)
        return await self.start_new(caller, message_in(found.state_key), **posting)

    async def start_new(
        self, caller: Principal, message: ChatMessage, **posting: Unpack[Posting]
    ) -> RunRecord:
        run_id = id_of_key(caller, posting) or str(new_uuid())
        record, _ = await self.chats.start_as(caller, message, run_id, **posting)
        return record

    async def start_first(
        self, caller: Principal, message: ChatMessage, **posting: Unpack[Posting]
    ) -> RunRecord | None:
        """Start the first run of a conversation, or join it; None if another request was first.

        Raises the errors of `ChatRuns.start_as`.
        """
        run_id = first_run(caller.account_id, message.chat.state_key)
        return await self._start_once(caller, message, run_id, **posting)

    async def _start_in_copy(
        self, caller: Principal, found: GivenAnswer, message: ChatMessage, **posting: Unpack[Posting]
    ) -> RunRecord:
        """Start the run in a copy of the conversation; there is no copy without its run.

        Raises the errors of `start_new` and of `ConversationService.fork`.
        """
        copy, joined_in = message.chat.state_key, None
        await self.conversations.fork(caller.account_id, found.state_key, at=found.run_id, new_key=copy)
        try:
            record = await self.start_new(caller, message, **posting)
            joined_in = record.state_key
        finally:
            if joined_in != copy:
                with suppress(AppError):
                    await self.conversations.delete(caller, copy)
        return record

    async def _find(self, caller: Principal, opening: str, answer: LastAnswer) -> GivenAnswer | None:
        """The run that gave an answer."""
        # Of the same length and without other signs: in this order whatever the database's collation is.
        keys = (f"{opening}.{'0' * 32}", f"{opening}.{'f' * 32}")
        async with self.database.read() as reader:
            return answer.among(await given_answers(reader, caller.account_id, keys, answer.message_id))

    async def _continue(
        self,
        caller: Principal,
        found: GivenAnswer,
        message_in: Callable[[str], ChatMessage],
        **posting: Unpack[Posting],
    ) -> RunRecord | None:
        """The run that follows a conversation's last one; None if another request was first."""
        run_id = id_of_key(caller, posting) or str(uuid5(_NEXT, f"{caller.account_id}/{found.run_id}"))
        return await self._start_once(caller, message_in(found.state_key), run_id, **posting)

    async def _start_once(
        self, caller: Principal, message: ChatMessage, run_id: str, **posting: Unpack[Posting]
    ) -> RunRecord | None:
        """The run with this id; None if another request has started it."""
        try:
            record, _ = await self.chats.start_as(caller, message, run_id, **posting)
        except RunIdTaken:
            return None
        # With a key, only the same request has joined it.
        is_own = record.request_id == posting["request_id"] or posting.get("fingerprint") is not None
        return record if is_own else None


def _after(
    run_id: RunId, place: int, message_in: Callable[[str], ChatMessage]
) -> Callable[[str], ChatMessage]:
    """The same message, with the answer before it under the id of its run."""

    def make(state_key: str) -> ChatMessage:
        message = message_in(state_key)
        posted: Sequence[str] = [*message.posted[:place], run_id, *message.posted[place + 1 :]]
        return replace(message, posted=posted)

    return make


def first_run(account_id: AccountId, state_key: str) -> RunId:
    """The id of the run that begins with the messages of a conversation that a client has created."""
    return RunId(str(uuid5(_NEXT, f"{account_id}/{state_key}")))


def chat_of(record: RunRecord) -> Chat:
    return Chat(record.graph_id, record.state_key or "")
