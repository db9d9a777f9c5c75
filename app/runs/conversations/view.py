"""ConversationView: all messages of a branch, as a chat shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.conversations.branching.tree import BranchTree
from app.conversations.history import ConversationHistory
from app.conversations.records import Conversation
from app.conversations.repository import find_conversation
from app.ids import RunId, RunKey
from app.platform.db import Database, Reader
from app.requests.principal import OfAnotherEndUser, Principal, ScopeMissing
from app.runs.conversations.branching import load_tree
from app.runs.conversations.page import PageEntry, read_page, turns_on_branch
from app.runs.conversations.records import TurnRecord
from app.runs.revocation.repository import is_shared

_PAGE_LINES = 1000


@dataclass(frozen=True, slots=True)
class ConversationView:
    """The messages of a branch, with what the model thought, oldest first, each with an id; and its runs."""

    conversation: Conversation
    entries: Sequence[PageEntry]
    runs: Sequence[TurnRecord]

    def up_to(self, path: Sequence[RunId]) -> "ConversationView":
        """The part of these runs, and what was there before them."""
        ids = frozenset(path)
        places = reversed(range(len(self.entries)))
        last = next((place for place in places if self.entries[place].message.run_id in ids), -1)
        runs = [run for run in self.runs if run.key.run_id in ids]
        return ConversationView(self.conversation, self.entries[: last + 1], runs)

    @property
    def ended(self) -> Sequence[PageEntry]:
        """Without what active runs have written: their streams begin with it."""
        active = {run.key.run_id for run in self.runs if run.ok is None}
        return [
            entry
            for entry in self.entries
            if entry.message.run_id not in active or entry.message.type == "user_message"
        ]


async def read_view(
    reader: Reader,
    history: ConversationHistory,
    conversation: Conversation,
    *,
    tree: BranchTree,
    path: Sequence[RunId],
    contents: Mapping[str, bytes],
) -> ConversationView:
    """All messages of a branch of this tree, whose runs are `path`; raises `ContentsMissing`."""
    entries: list[PageEntry] = []
    runs: dict[str, TurnRecord] = {}
    after = 0
    turns = await turns_on_branch(reader, conversation, path)
    while True:
        lines = await history.page(
            reader,
            conversation,
            after=after,
            limit=_PAGE_LINES,
            passed_on=tree.passed_on,
            contents=contents,
            with_thinking=True,
        )
        page = await read_page(reader, conversation, lines, turns=turns)
        entries += page.entries
        runs |= {run.key.run_id: run for run in page.runs}
        if page.next_cursor is None:
            return ConversationView(conversation, entries, list(runs.values()))
        after = lines.end


async def read_view_before(
    database: Database,
    history: ConversationHistory,
    run: RunKey,
    state_key: str,
    contents: Mapping[str, bytes],
) -> ConversationView | None:
    """All messages before those of a run; None if its conversation does not have it any more."""
    async with database.snapshot() as reader:
        conversation = await find_conversation(reader, run.account_id, state_key)
        if conversation is None:
            return None
        tree = await load_tree(reader, conversation)
        if run.run_id not in tree:
            return None
        conversation = replace(conversation, session_id=tree.branch_of(run.run_id))
        path = tree.path_to(run.run_id)
        view = await read_view(reader, history, conversation, tree=tree, path=path, contents=contents)
        return view.up_to(path[:-1])


async def require_reading(reader: Reader, conversation: Conversation, caller: Principal) -> None:
    """Raise `ScopeMissing` unless the caller may read runs, or created it and started every run of it.

    For a token every run has to be for its end user: `OfAnotherEndUser`.
    """
    if caller.reads_all:
        return
    opened_by = (conversation.opening or {}).get("apiKeyId")
    is_opened_by_another = opened_by is not None and (
        caller.end_user is not None or opened_by != str(caller.api_key_id)
    )
    # Forking requires permission to read, so a fork may contain messages of other keys.
    is_forked = conversation.forked_from is not None
    if is_forked or is_opened_by_another or await is_shared(reader, conversation, caller):
        raise ScopeMissing.of("runs:read") if caller.end_user is None else OfAnotherEndUser
