"""ConversationService: lists, reads, forks and deletes conversations, and assigns turns to runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from app.conversations.history import ConversationHistory
from app.conversations.history_merge import new_messages
from app.conversations.records import Conversation
from app.conversations.repository import (
    delete_conversation,
    find_conversation,
    has_user_messages,
    insert_conversation,
    lock_conversation,
    newest_conversations,
    take_turn,
    transcript_bytes,
)
from app.db import Database, Reader, Transaction
from app.errors import Conflict, NotFound
from app.ids import AccountId, RunKey, new_uuid
from app.pagination import PageRequest
from app.principal import Principal, ScopeMissing
from app.requests import GraphRunRequest
from app.runs.conversations.page import ConversationPage, parse_cursor, read_page
from app.runs.records import RunRecord
from app.runs.repository import find_runs, unfinished_turns
from app.runs.revocation.repository import is_shared
from app.storage.service import StorageQuota

_TITLE_CHARS = 120


class ConversationNotFound(NotFound):
    """There is no conversation with this key."""

    code = "session_not_found"


class ConversationBusy(Conflict):
    """A run of this conversation has not ended."""

    code = "session_busy"


class ConversationOfOtherExecutor(Conflict):
    """This conversation belongs to another executor: use a graph of that one, or another conversation."""

    code = "session_of_other_executor"


class ConversationFull(Conflict):
    """This conversation has reached its maximum size; start another one, or fork an earlier part of it."""

    code = "session_full"


class ConversationExists(Conflict):
    """There already is a conversation with this key."""

    code = "session_exists"


class NothingToFork(Conflict):
    """The conversation contains no messages, or none of that run."""

    code = "nothing_to_fork"


@dataclass(frozen=True, slots=True)
class TakenTurn:
    """A run's place in a conversation."""

    conversation: Conversation
    earlier: Sequence[RunKey]
    """The runs before it that have not ended."""
    replaces: bool
    """Whether it cancels them."""

    @property
    def to_cancel(self) -> Sequence[RunKey]:
        """The runs that it cancels."""
        return self.earlier if self.replaces else ()


class ConversationService:
    """The conversations of all accounts."""

    def __init__(
        self,
        database: Database,
        history: ConversationHistory,
        *,
        storage: StorageQuota,
        max_bytes: int,
    ) -> None:
        """`max_bytes`: a conversation of this size gets no further turn."""
        self._database = database
        self._history = history
        self._storage = storage
        self._max_bytes = max_bytes

    async def list_conversations(
        self, account_id: AccountId, *, limit: int, cursor: str | None = None
    ) -> tuple[list[Conversation], str | None]:
        """A page of an account's conversations, most recently used first, and the next page's cursor."""
        page = PageRequest.of(limit, cursor)
        async with self._database.snapshot() as reader:
            found = await newest_conversations(reader, account_id, page)
        return page.cut(found, lambda each: (each.updated_at, each.state_key))

    async def get_page(
        self, account_id: AccountId, state_key: str, *, limit: int, cursor: str | None = None
    ) -> ConversationPage:
        """A page of a conversation; raises `ConversationNotFound`, and `Invalid` for the cursor."""
        after = parse_cursor(cursor)
        async with self._database.snapshot() as reader:
            conversation = await find_conversation(reader, account_id, state_key)
            if conversation is None:
                raise ConversationNotFound
            history = await self._history.page(reader, conversation, after=after, limit=limit)
            return await read_page(reader, conversation, history)

    async def fork(
        self, account_id: AccountId, state_key: str, *, at: str | None, new_key: str | None
    ) -> Conversation:
        """Copy a conversation up to and including the run `at`, or all of it.

        Raises `ConversationNotFound`, `ConversationExists`, `NothingToFork`, `StorageFull`, and
        `ConversationBusy` if the last run to copy has not ended.
        """
        conversation = await self._get(account_id, state_key)
        async with self._database.snapshot() as reader:
            size = await transcript_bytes(reader, conversation.transcript)
            await self._storage.require_room(reader, account_id, size)
        point = await self._history.fork_point(conversation, at)
        await self._require_idle(conversation, point.run_id)
        if point.entry_id is None:
            raise NothingToFork
        now = datetime.now(UTC)
        copy = Conversation(
            account_id=account_id,
            state_key=new_key or str(new_uuid()),
            session_id=await self._history.fork(conversation, point.entry_id),
            title=conversation.title,
            executor=conversation.executor,
            turns=0,
            forked_from=state_key,
            forked_at=point.run_id,
            created_at=now,
            updated_at=now,
        )
        async with self._database.transaction() as tx:
            if await insert_conversation(tx, copy):
                return copy
            # The copy is not reachable by any key.
            await delete_conversation(tx, replace(copy, state_key=""))
        raise ConversationExists

    async def delete(self, caller: Principal, state_key: str) -> None:
        """Delete the transcript; runs and receipts stay.

        Raises `ConversationNotFound`, `ConversationBusy`, and `ScopeMissing` if the caller may not read it.
        """
        async with self._database.transaction() as tx:
            conversation = await lock_conversation(tx, caller.account_id, state_key)
            if conversation is None:
                raise ConversationNotFound
            await _require_reading(tx, conversation, caller)
            if await unfinished_turns(tx, conversation):
                raise ConversationBusy
            await delete_conversation(tx, conversation)

    async def check_history(self, caller: Principal, request: GraphRunRequest) -> None:
        """Raise `HistoryConflict` if the request's earlier messages differ from the conversation.

        While another run is active the history is checked later, when the run's turn comes. Raises
        `ScopeMissing` if the caller may not read the conversation.
        """
        turns = [message for message in request.messages if message.role != "system"]
        if request.state_key is None or len(turns) == 1:
            return
        async with self._database.snapshot() as reader:
            conversation = await find_conversation(reader, caller.account_id, request.state_key)
            if conversation is None:
                return
            await _require_reading(reader, conversation, caller)
            if await unfinished_turns(reader, conversation):
                return
        if (stored := await self._history.read(conversation)) is not None:
            new_messages(request.messages, stored)

    async def active_runs(self, account_id: AccountId, state_key: str) -> list[RunRecord]:
        """The runs of a conversation that have not ended, oldest first; empty if there is none."""
        async with self._database.snapshot() as reader:
            conversation = await find_conversation(reader, account_id, state_key)
            keys = [] if conversation is None else await unfinished_turns(reader, conversation)
            return await find_runs(reader, account_id, [key.run_id for key in keys])

    async def has_history(self, account_id: AccountId, state_key: str) -> bool:
        """Whether the conversation will contain messages when another run's turn comes."""
        async with self._database.snapshot() as reader:
            conversation = await find_conversation(reader, account_id, state_key)
            if conversation is None:
                return False
            busy = bool(await unfinished_turns(reader, conversation))
            return busy or await has_user_messages(reader, conversation.transcript)

    async def take_turn(
        self, tx: Transaction, caller: Principal, state_key: str, *, request: GraphRunRequest
    ) -> TakenTurn:
        """Add a turn to a conversation.

        Raises `ConversationOfOtherExecutor`, `ConversationFull`, `ConversationBusy` (with `onConflict:
        reject`), and `ScopeMissing` if the caller may not read the conversation, whose content the agent
        could reveal.
        """
        executor, _, _ = request.graph_id.partition(":")
        conversation = await take_turn(
            tx, caller.account_id, state_key, title=_title(request), executor=executor
        )
        await _require_reading(tx, conversation, caller)
        if conversation.executor != executor:
            raise ConversationOfOtherExecutor
        if await transcript_bytes(tx, conversation.transcript) >= self._max_bytes:
            raise ConversationFull
        earlier = await unfinished_turns(tx, conversation, before=conversation.turns)
        if earlier and request.on_conflict == "reject":
            raise ConversationBusy
        return TakenTurn(conversation, earlier, replaces=request.on_conflict == "interrupt")

    async def _get(self, account_id: AccountId, state_key: str) -> Conversation:
        async with self._database.snapshot() as reader:
            conversation = await find_conversation(reader, account_id, state_key)
        if conversation is None:
            raise ConversationNotFound
        return conversation

    async def _require_idle(self, conversation: Conversation, last: str | None) -> None:
        async with self._database.snapshot() as reader:
            if any(run.run_id == last for run in await unfinished_turns(reader, conversation)):
                raise ConversationBusy


async def _require_reading(reader: Reader, conversation: Conversation, caller: Principal) -> None:
    """Raise `ScopeMissing` unless the caller may read runs or started every run of the conversation."""
    if caller.may("runs:read"):
        return
    # Forking requires permission to read, so a fork may contain messages of other keys.
    if conversation.forked_from is not None or await is_shared(reader, conversation, caller.api_key_id):
        raise ScopeMissing.of("runs:read")


def _title(request: GraphRunRequest) -> str | None:
    words = " ".join(request.messages[-1].text.split())
    return words[:_TITLE_CHARS] or None
