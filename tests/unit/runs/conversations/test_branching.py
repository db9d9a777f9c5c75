"""Where a run needs a new branch, and how branches are listed."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.conversations.branching.records import After, Branch, BranchRun, InPlaceOf, Place
from app.conversations.branching.tree import BranchTree
from app.conversations.records import Conversation
from app.errors import Invalid
from app.ids import AccountId, RunId
from app.runs.conversations import branching

NOW = datetime(2026, 11, 24, tzinfo=UTC)
FIRST, SECOND = UUID(int=1), UUID(int=2)
CONVERSATION = Conversation(
    account_id=AccountId(UUID(int=9)),
    state_key="chat-1",
    session_id=SECOND,
    title=None,
    turns=4,
    forked_from=None,
    forked_at=None,
    created_at=NOW,
    updated_at=NOW,
    executor="messages",
)
A, B, C, D = (RunId(name) for name in "abcd")
TREE = BranchTree(
    [Branch(FIRST, False, None, NOW), Branch(SECOND, True, A, NOW)],
    [BranchRun(run, branch, None) for run, branch in ((A, FIRST), (B, FIRST), (C, SECOND), (D, SECOND))],
)


@pytest.mark.parametrize(
    ("place", "point"),
    [
        (After(D), None),
        (After(C), branching.BranchPoint([A, C], SECOND)),
        (After(A), branching.BranchPoint([A], FIRST)),
        (After(B), branching.BranchPoint([A, B], FIRST)),
        (After(None), branching.BranchPoint([], SECOND)),
        (InPlaceOf(D), branching.BranchPoint([A, C], SECOND)),
        (InPlaceOf(C), branching.BranchPoint([A], FIRST)),
        (InPlaceOf(B), branching.BranchPoint([A], FIRST)),
        (InPlaceOf(A), branching.BranchPoint([], SECOND)),
    ],
)
def test_a_run_needs_a_branch_unless_its_place_is_the_end(
    place: Place, point: branching.BranchPoint | None
) -> None:
    assert branching.find_branch_point(TREE, CONVERSATION, place) == point


def test_the_end_of_another_branch_is_the_end_once_that_is_current() -> None:
    first = replace(CONVERSATION, session_id=FIRST)

    assert branching.find_branch_point(TREE, first, After(B)) is None
    assert branching.find_branch_point(TREE, first, After(D)) == branching.BranchPoint([A, C, D], SECOND)


def test_a_place_that_the_conversation_does_not_have_is_refused() -> None:
    with pytest.raises(Invalid, match="forkFrom"):
        branching.find_branch_point(TREE, CONVERSATION, InPlaceOf(RunId("x")))
    with pytest.raises(branching.ConversationChanged):
        branching.find_branch_point(TREE, CONVERSATION, After(RunId("x")))


def test_branches_have_ids_that_do_not_name_their_transcripts() -> None:
    first, second = branching.summaries_of(TREE, CONVERSATION)

    assert [(each.runs, each.last_run, each.is_current) for each in (first, second)] == [
        ([A, B], B, False),
        ([C, D], D, True),
    ]
    assert {first.branch_id, second.branch_id}.isdisjoint({FIRST, SECOND})
    assert branching.find_branch(TREE, CONVERSATION, first.branch_id).session_id == FIRST
    with pytest.raises(branching.BranchNotFound):
        branching.find_branch(TREE, CONVERSATION, FIRST)
