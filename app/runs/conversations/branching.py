"""ConversationBranches: the branches of conversations, and the beginning of new ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from app.conversations.branching import repository
from app.conversations.branching.records import After, Branch, InPlaceOf, Place
from app.conversations.branching.tree import BranchTree
from app.conversations.records import Conversation, Transcript
from app.conversations.repository import first_positions, update_conversation
from app.errors import Conflict, Invalid, NotFound
from app.ids import AccountId, RunId
from app.platform.db import Reader, Transaction
from app.platform.storage.service import StorageQuota
from app.runs.conversations.repository import find_branch_runs, runs_on_branches

MOST_BRANCHES = 1_000
"""Of a conversation: lists of them have no pages, and each further branch reads all of them."""


class BranchNotFound(NotFound):
    """The conversation has no branch with this id."""

    code = "branch_not_found"


class TooManyBranches(Conflict):
    """This conversation has as many branches as it may have; continue one of them, or fork it."""

    code = "too_many_branches"


class ConversationChanged(Conflict):
    """The conversation was deleted meanwhile; send the message again."""

    code = "session_changed"


@dataclass(frozen=True, slots=True)
class BranchSummary:
    """A branch as clients see it."""

    branch_id: UUID
    forked_from_run: RunId | None
    """The last run that it has in common with an earlier branch."""
    forked_from_branch: UUID | None
    """The one that this run was started on; None without a run in common."""
    runs: Sequence[RunId]
    """The runs of the conversation that no earlier branch has, in order."""
    last_run: RunId | None
    """The last run of its messages, which may be one in common."""
    created_at: datetime
    is_current: bool


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """Where a new branch begins: after these runs, all of which one branch contains."""

    runs: Sequence[RunId]
    source: UUID


async def load_tree(reader: Reader, conversation: Conversation) -> BranchTree:
    branches = await repository.branches_of(reader, conversation)
    runs = await runs_on_branches(reader, conversation)
    if conversation.forked_from is None:
        return BranchTree(branches, runs)
    (first,) = (branch for branch in branches if not branch.is_forked)
    transcript = Transcript(str(conversation.account_id), str(first.session_id))
    own = {run.run_id for run in runs}
    copied = [run_id for run_id in await first_positions(reader, transcript) if run_id not in own]
    found = {run.run_id: run for run in await find_branch_runs(reader, conversation.account_id, copied)}
    inherited = [found[RunId(run_id)] for run_id in copied if run_id in found]
    return BranchTree(branches, runs, inherited=inherited)


def find_branch_point(tree: BranchTree, conversation: Conversation, place: Place) -> BranchPoint | None:
    """Where a run needs a new branch to be at this place; None: it is the end of the current branch.

    Raises `Invalid` for a run to replace that the conversation does not have, and `ConversationChanged`.
    """
    match place:
        case InPlaceOf(run_id=run_id):
            if run_id not in tree:
                raise Invalid.field("forkFrom", "is not a run of this conversation")
            after = tree.run_before(run_id)
        case After(run_id=after):
            if after is not None and after not in tree:
                raise ConversationChanged
    if after == tree.head(conversation.session_id):
        return None
    source = conversation.session_id if after is None else tree.branch_of(after)
    return BranchPoint(tree.path_to(after), source)


async def begin_branch(
    tx: Transaction,
    conversation: Conversation,
    tree: BranchTree,
    point: BranchPoint,
    *,
    storage: StorageQuota,
) -> Conversation:
    """Copy the transcript up to this point, and continue the conversation there.

    In the caller's transaction, so that no copy stays if its run is not accepted. Raises `StorageFull`,
    `TooManyBranches`.
    """
    if len(tree.branches) >= MOST_BRANCHES:
        raise TooManyBranches
    source = Transcript(str(conversation.account_id), str(point.source))
    session_id, last = uuid4(), point.runs[-1] if point.runs else None
    await repository.insert_branch(tx, conversation, tree.first, session_id, after=last)
    await copy_transcript(tx, source, point.runs, to=session_id, storage=storage)
    await update_conversation(tx, conversation, session_id=session_id)
    return replace(conversation, session_id=session_id)


async def copy_transcript(
    tx: Transaction, transcript: Transcript, runs: Sequence[RunId], *, to: UUID, storage: StorageQuota
) -> None:
    """Copy a transcript up to the last line of these runs; raises `StorageFull`."""
    size = await repository.bytes_up_to(tx, transcript, runs)
    await storage.require_room(tx, AccountId(UUID(transcript.project_key)), size)
    await repository.copy_transcript(tx, transcript, runs, to=to)


def summaries_of(tree: BranchTree, conversation: Conversation) -> list[BranchSummary]:
    return [
        BranchSummary(
            branch_id=replace(conversation, session_id=branch.session_id).branch_id,
            forked_from_run=branch.forked_from_run,
            forked_from_branch=_source_of(tree, branch, conversation),
            runs=tree.own_runs(session_id),
            last_run=tree.head(session_id),
            created_at=branch.created_at,
            is_current=session_id == conversation.session_id,
        )
        for session_id, branch in tree.branches.items()
    ]


def _source_of(tree: BranchTree, branch: Branch, conversation: Conversation) -> UUID | None:
    run = branch.forked_from_run
    return None if run is None else replace(conversation, session_id=tree.branch_of(run)).branch_id


def find_branch(tree: BranchTree, conversation: Conversation, branch_id: UUID) -> Conversation:
    for session_id in tree.branches:
        found = replace(conversation, session_id=session_id)
        if found.branch_id == branch_id:
            return found
    raise BranchNotFound
