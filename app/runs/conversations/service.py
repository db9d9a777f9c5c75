"""ConversationService: lists, reads, forks and deletes conversations, and assigns turns to runs."""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from app.conversations import repository
from app.conversations.branching.placement import KnownMessages
from app.conversations.branching.records import Place
from app.conversations.branching.repository import runs_with_lines
from app.conversations.grants.records import PermissionGrant
from app.conversations.grants.repository import delete_grant, find_grants
from app.conversations.history import ConversationHistory
from app.conversations.records import Conversation, ConversationChange
from app.errors import Conflict, Forbidden, NotFound
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.concurrency.fair_semaphore import FairSemaphore
from app.platform.db import Database, Reader, Transaction
from app.platform.pagination import PageRequest
from app.platform.storage.records import Retention
from app.platform.storage.service import StorageQuota
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.conversations.branching import (
    BranchSummary,
    begin_branch,
    copy_transcript,
    find_branch,
    find_branch_point,
    load_tree,
    summaries_of,
)
from app.runs.conversations.known_messages import known_messages
from app.runs.conversations.listing import list_chosen
from app.runs.conversations.page import ConversationPage, parse_cursor, read_page, turns_on_branch
from app.runs.conversations.records import ConversationFilter, TakenTurn, new_turn
from app.runs.conversations.repository import lock_unused, newest_chats
from app.runs.conversations.view import ConversationView, read_view, read_view_before, require_reading
from app.runs.deletion.repository import delete_contents, lock_conversation_runs
from app.runs.records import RunRecord
from app.runs.repository import find_runs, unfinished_turns
from app.workspaces.repository import find_current_state

_SEARCHES = 2
"""At the same time, so that others get connections to the database."""
_ANY = ConversationFilter()


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


class GrantNotFound(NotFound):
    """This conversation has no grant with this id."""

    code = "grant_not_found"


class NothingToFork(Conflict):
    """The conversation contains no messages, or none of that run."""

    code = "nothing_to_fork"


@dataclass(frozen=True, slots=True)
class ConversationService:
    """The conversations of all accounts."""

    database: Database
    history: ConversationHistory
    storage: StorageQuota
    max_bytes: int
    """A conversation of this size gets no further turn."""
    _searches: FairSemaphore = field(default_factory=lambda: FairSemaphore(_SEARCHES), init=False)

    async def require_reading(self, caller: Principal, state_key: str) -> None:
        """Raise `ConversationNotFound` unless the caller may read the conversation with this key."""
        async with self.database.snapshot() as reader:
            conversation = await required(repository.find_conversation(reader, caller.account_id, state_key))
            try:
                await require_reading(reader, conversation, caller)
            except Forbidden as error:
                raise ConversationNotFound from error

    async def list_conversations(
        self, caller: Principal, page: PageRequest, chosen: ConversationFilter = _ANY
    ) -> tuple[list[Conversation], str | None]:
        searching = nullcontext() if chosen.words is None else self._searches.slot(str(caller.account_id))
        async with searching, self.database.snapshot() as reader:
            return await list_chosen(reader, caller, page, chosen)

    async def get_page(
        self,
        account_id: AccountId,
        state_key: str,
        *,
        limit: int,
        cursor: str | None = None,
        branch_id: UUID | None = None,
    ) -> ConversationPage:
        """A page of a conversation, on its current branch or this one.

        Raises `ConversationNotFound`, `BranchNotFound`, and `Invalid` for the cursor.
        """
        after = parse_cursor(cursor)

        async def read(contents: Mapping[str, bytes]) -> ConversationPage:
            async with self.database.snapshot() as reader:
                conversation = await required(repository.find_conversation(reader, account_id, state_key))
                tree = await load_tree(reader, conversation)
                if branch_id is not None:
                    conversation = find_branch(tree, conversation, branch_id)
                history = await self.history.page(
                    *(reader, conversation),
                    after=after,
                    limit=limit,
                    passed_on=tree.passed_on,
                    contents=contents,
                )
                turns = await turns_on_branch(reader, conversation, tree.path(conversation.session_id))
                return await read_page(reader, conversation, history, turns=turns)

        return await self.history.sessions.completed(account_id, read)

    async def view(self, account_id: AccountId, state_key: str) -> ConversationView:
        """All messages of a conversation's current branch; raises `ConversationNotFound`."""

        async def read(contents: Mapping[str, bytes]) -> ConversationView:
            async with self.database.snapshot() as reader:
                conversation = await required(repository.find_conversation(reader, account_id, state_key))
                tree = await load_tree(reader, conversation)
                path = tree.path(conversation.session_id)
                return await read_view(
                    reader, self.history, conversation, tree=tree, path=path, contents=contents
                )

        return await self.history.sessions.completed(account_id, read)

    async def view_before(self, run: RunKey, state_key: str) -> ConversationView | None:
        """All messages before those of a run; None if the conversation does not have it any more."""
        read = partial(read_view_before, self.database, self.history, run, state_key)
        return await self.history.sessions.completed(run.account_id, read)

    async def list_chats(
        self, caller: Principal, graph_id: str, page: PageRequest
    ) -> tuple[list[Conversation], str | None]:
        """A page of the conversations with runs of this graph, most recently used first."""
        async with self.database.snapshot() as reader:
            found = await newest_chats(reader, caller, graph_id, page)
        return page.cut(found, lambda each: (each.updated_at, each.state_key))

    async def fork(
        self, account_id: AccountId, state_key: str, *, at: str | None, new_key: str | None
    ) -> Conversation:
        """Copy a conversation up to and including the run `at`, or all of it.

        Raises `ConversationNotFound`, `ConversationExists`, `NothingToFork`, `StorageFull`, and
        `ConversationBusy` if the last run to copy has not ended.
        """
        async with self.database.transaction() as tx:
            # Locked, so that an erasure finds the copy.
            source = await required(repository.lock_conversation(tx, account_id, state_key))
            source, last = await _end_to_copy(tx, source, at)
            if any(run.run_id == last for run in await unfinished_turns(tx, source)):
                raise ConversationBusy
            if last is None or not await runs_with_lines(tx, source.transcript, [last]):
                raise NothingToFork
            copy = replace(
                source,
                state_key=new_key or str(new_uuid()),
                session_id=new_uuid(),
                turns=0,
                forked_from=state_key,
                forked_at=last,
                managed=None,
                opening=None,
            )
            if (inserted := await repository.insert_conversation(tx, copy)) is None:
                raise ConversationExists
            await copy_transcript(tx, source.transcript, [last], to=copy.session_id, storage=self.storage)
        return inserted

    async def change(self, caller: Principal, state_key: str, change: ConversationChange) -> Conversation:
        """Rename, pin or archive it; raises `ConversationNotFound`, or `ScopeMissing` as `delete` does."""
        async with self.database.transaction() as tx:
            conversation = await required(repository.lock_conversation(tx, caller.account_id, state_key))
            await require_reading(tx, conversation, caller)
            if changed := {name: value for name, value in asdict(change).items() if value is not None}:
                await repository.update_conversation(tx, conversation, **changed)
            return await required(repository.find_conversation(tx, caller.account_id, state_key))

    async def delete(self, caller: Principal, state_key: str) -> None:
        """Delete the transcript, the files kept for it and what its runs contain; their receipts stay.

        Raises `ConversationNotFound`, `ConversationBusy`, and `ScopeMissing` if the caller may not read it.
        """
        async with self.database.transaction() as tx:
            conversation = await required(repository.lock_conversation(tx, caller.account_id, state_key))
            await require_reading(tx, conversation, caller)
            await self._erase(tx, conversation)

    async def erase(self, tx: Transaction, account_id: AccountId, state_key: str) -> Sequence[RunKey]:
        """The same without a caller, if there is one; returns the runs. Raises `ConversationBusy`."""
        conversation = await repository.lock_conversation(tx, account_id, state_key)
        return () if conversation is None else await self._erase(tx, conversation)

    async def delete_unused(self, by_default: Retention, until: datetime, most: int) -> int:
        """The same for some without a turn for too long; returns how many."""
        async with self.database.transaction() as tx:
            unused = await lock_unused(tx, by_default, until=until, most=most)
            for account_id, state_key in unused:
                await self.erase(tx, account_id, state_key)
        return len(unused)

    async def active_runs(self, account_id: AccountId, state_key: str) -> list[RunRecord]:
        """The runs of a conversation that have not ended, oldest first; empty if there is none."""
        async with self.database.snapshot() as reader:
            conversation = await repository.find_conversation(reader, account_id, state_key)
            keys = [] if conversation is None else await unfinished_turns(reader, conversation)
            return await find_runs(reader, account_id, [key.run_id for key in keys])

    async def run_with_files(self, account_id: AccountId, state_key: str) -> RunKey | None:
        """The run that has left the files with which the next turn begins; None if there are none.

        Raises `ConversationNotFound`.
        """
        async with self.database.snapshot() as reader:
            await required(repository.find_conversation(reader, account_id, state_key))
            state = await find_current_state(reader, account_id, state_key)
            return None if state is None else RunKey(account_id, state.run_id)

    async def find_messages(
        self, caller: Principal, state_key: str, message_ids: Sequence[str], *, first_unanswered: int
    ) -> KnownMessages:
        """Those of these ids that name messages of the conversation, on any branch, and their runs.

        The last of them is the message that is to be placed; those since `first_unanswered` are the user's.
        A message that was answered several times does not name one run: the ids after it show which answer
        the client has. Raises `ScopeMissing` if the caller may not read the conversation.
        """
        async with self.database.snapshot() as reader:
            conversation = await repository.find_conversation(reader, caller.account_id, state_key)
            if conversation is None:
                return KnownMessages({})
            await require_reading(reader, conversation, caller)
            return await known_messages(reader, conversation, message_ids, first_unanswered=first_unanswered)

    async def take_turn(
        self,
        tx: Transaction,
        caller: Principal,
        state_key: str,
        *,
        request: GraphRunRequest,
        place: Place | None = None,
    ) -> TakenTurn:
        """Add a turn to a conversation, at its end or at this place.

        Where another run is there already, the turn begins a branch and cancels what the branch leaves
        behind. Raises `ConversationOfOtherExecutor`, `ConversationFull`, `ConversationBusy` (with
        `onConflict: reject`, or if the turn's own predecessor has not ended), `Invalid` and
        `ConversationChanged` for the place, `StorageFull`, and `ScopeMissing` if the caller may not read the
        conversation, whose content the agent could reveal.
        """
        new = new_turn(request, state_key)
        conversation = await repository.take_turn(tx, caller.account_id, new)
        await require_reading(tx, conversation, caller)
        if conversation.executor != new.executor:
            raise ConversationOfOtherExecutor
        earlier = await unfinished_turns(tx, conversation, before=conversation.turns)
        if earlier and request.on_conflict == "reject":
            raise ConversationBusy
        forked = None if place is None else await self._fork_at(tx, conversation, place, earlier)
        conversation = forked or conversation
        if await repository.transcript_bytes(tx, conversation.transcript) >= self.max_bytes:
            raise ConversationFull
        return TakenTurn(
            conversation, earlier, replaces=forked is not None or request.on_conflict == "interrupt"
        )

    async def _fork_at(
        self, tx: Transaction, conversation: Conversation, place: Place, unfinished: Sequence[RunKey]
    ) -> Conversation | None:
        """Begin a branch, if the place needs one."""
        tree = await load_tree(tx, conversation)
        if (point := find_branch_point(tree, conversation, place)) is None:
            return None
        if any(run.run_id in point.runs for run in unfinished):
            raise ConversationBusy
        return await begin_branch(tx, conversation, tree, point, storage=self.storage)

    async def list_branches(self, account_id: AccountId, state_key: str) -> list[BranchSummary]:
        """The branches of a conversation, oldest first; raises `ConversationNotFound`."""
        async with self.database.snapshot() as reader:
            conversation = await required(repository.find_conversation(reader, account_id, state_key))
            return summaries_of(await load_tree(reader, conversation), conversation)

    async def return_to_branch(
        self, account_id: AccountId, state_key: str, branch_id: UUID
    ) -> list[BranchSummary]:
        """Continue a conversation on this branch; returns its branches.

        Raises `ConversationNotFound`, `BranchNotFound`, and `ConversationBusy` while a run is active.
        """
        async with self.database.transaction() as tx:
            conversation = await required(repository.lock_conversation(tx, account_id, state_key))
            tree = await load_tree(tx, conversation)
            chosen = find_branch(tree, conversation, branch_id)
            if await unfinished_turns(tx, conversation):
                raise ConversationBusy
            await repository.update_conversation(tx, conversation, session_id=chosen.session_id)
            return summaries_of(tree, chosen)

    async def list_grants(self, account_id: AccountId, state_key: str) -> list[PermissionGrant]:
        """A conversation's grants, newest first: one for each tool at most. Raises `ConversationNotFound`."""
        async with self.database.snapshot() as reader:
            await required(repository.find_conversation(reader, account_id, state_key))
            return await find_grants(reader, account_id, state_key)

    async def revoke_grant(self, account_id: AccountId, state_key: str, grant_id: UUID) -> None:
        """The next call of the tool is asked about again; raises `GrantNotFound`."""
        async with self.database.transaction() as tx:
            if not await delete_grant(tx, account_id, state_key, grant_id):
                raise GrantNotFound

    async def _erase(self, tx: Transaction, conversation: Conversation) -> Sequence[RunKey]:
        if await unfinished_turns(tx, conversation):
            raise ConversationBusy
        ended = await lock_conversation_runs(tx, conversation.account_id, conversation.state_key)
        await delete_contents(tx, ended)
        await repository.delete_conversation(tx, conversation)
        return ended


async def required(found: Awaitable[Conversation | None]) -> Conversation:
    """What was found; raises `ConversationNotFound`."""
    if (conversation := await found) is None:
        raise ConversationNotFound
    return conversation


async def _end_to_copy(
    reader: Reader, conversation: Conversation, at: str | None
) -> tuple[Conversation, RunId | None]:
    """The conversation on the branch to copy, and the last run there; None: its transcript is empty."""
    if at is None:
        first = await repository.first_positions(reader, conversation.transcript)
        return conversation, RunId(next(reversed(first))) if first else None
    tree = await load_tree(reader, conversation)
    if (last := RunId(at)) not in tree:
        raise NothingToFork
    return replace(conversation, session_id=tree.branch_of(last)), last
