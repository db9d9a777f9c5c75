"""Paths, heads and known messages of branched conversations."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.conversations.branching.records import Branch, BranchRun
from app.conversations.branching.tree import BranchTree
from app.ids import RunId

NOW = datetime(2026, 11, 24, tzinfo=UTC)
FIRST, SECOND, THIRD, LAST = (UUID(int=number) for number in range(1, 5))


def a_run(name: str, branch: UUID | None, message: str | None = None) -> BranchRun:
    return BranchRun(RunId(name), branch, message)


def an_unheard_run(name: str, branch: UUID) -> BranchRun:
    return BranchRun(RunId(name), branch, None, has_succeeded=False)


def a_branch(session_id: UUID, after: str | None) -> Branch:
    return Branch(session_id, True, None if after is None else RunId(after), NOW)


@pytest.fixture
def tree() -> BranchTree:
    """A b c; then after a: d e; after d: f; and g from the beginning."""
    return BranchTree(
        [Branch(FIRST, False, None, NOW), a_branch(SECOND, "a"), a_branch(THIRD, "d"), a_branch(LAST, None)],
        [
            a_run("a", None, "u1"),
            a_run("b", FIRST, "u2"),
            a_run("c", FIRST, "u3"),
            a_run("d", SECOND, "u2"),
            a_run("e", SECOND),
            a_run("f", THIRD, "u5"),
            a_run("g", LAST, "u1"),
            a_run("of-a-deleted-conversation", UUID(int=9), "u9"),
        ],
        inherited=[a_run("z", UUID(int=8), "u0")],
    )


@pytest.mark.parametrize(
    ("branch", "path"), [(FIRST, "zabc"), (SECOND, "zade"), (THIRD, "zadf"), (LAST, "g")]
)
def test_a_path_has_what_its_branch_has_in_common(tree: BranchTree, branch: UUID, path: str) -> None:
    assert tree.path(branch) == list(path)
    assert tree.head(branch) == path[-1]


@pytest.mark.parametrize(
    ("run", "before", "branch"),
    [("z", None, FIRST), ("a", "z", FIRST), ("d", "a", SECOND), ("f", "d", THIRD), ("g", None, LAST)],
)
def test_a_run_follows_the_one_before_it(
    tree: BranchTree, run: str, before: str | None, branch: UUID
) -> None:
    assert tree.run_before(RunId(run)) == before
    assert tree.branch_of(RunId(run)) == branch


def test_of_several_answers_that_on_the_current_branch_is_meant(tree: BranchTree) -> None:
    ids = ["u1", "u2", "b", "e/user", "f/some-line", "earlier/f/1", "u9", "nothing"]

    assert tree.known(ids, current=FIRST) == {
        "u1": "a",
        "u2": "b",
        "b": "b",
        "e/user": "e",
        "f/some-line": "f",
    }
    assert tree.known(ids, current=THIRD)["u2"] == "d"
    assert tree.known(ids, current=LAST) == {
        "u1": "g",
        "u2": "d",
        "b": "b",
        "e/user": "e",
        "f/some-line": "f",
    }
    assert RunId("of-a-deleted-conversation") not in tree
    assert tree.answers_to("u2") == ["b", "d"]


def test_a_branch_without_runs_of_its_own_ends_where_it_began() -> None:
    tree = BranchTree([Branch(FIRST, False, None, NOW), a_branch(SECOND, "a")], [a_run("a", FIRST)])

    assert (tree.head(SECOND), tree.path(SECOND)) == ("a", ["a"])


def test_a_thousand_forks_of_forks_are_one_path() -> None:
    branches = [Branch(UUID(int=1), False, None, NOW)]
    branches += [a_branch(UUID(int=number), f"r{number - 1}") for number in range(2, 2001)]
    tree = BranchTree(branches, [a_run(f"r{number}", UUID(int=number)) for number in range(1, 2001)])

    assert len(tree.path(UUID(int=2000))) == 2000


def test_an_inherited_run_is_in_paths_and_belongs_to_the_original(tree: BranchTree) -> None:
    assert list(tree.own_runs(FIRST)) == ["a", "b", "c"]
    assert tree.path(FIRST)[0] == tree.run_before(RunId("a")) == "z"


def test_the_runs_that_may_have_messages_to_pass_on_are_the_last_of_a_path() -> None:
    runs = [an_unheard_run("a", FIRST), a_run("b", FIRST), *(an_unheard_run(each, FIRST) for each in "cd")]
    branches = [Branch(FIRST, False, None, NOW), a_branch(SECOND, "c")]
    tree = BranchTree(branches, [*runs, an_unheard_run("e", SECOND)])

    assert tree.last_unsuccessful(tree.path(FIRST)) == ["c", "d"]
    assert tree.last_unsuccessful(tree.path(SECOND)) == ["c", "e"]
    assert tree.last_unsuccessful(tree.path_to(RunId("b"))) == []
    assert tree.last_unsuccessful(tree.path_to(RunId("a"))) == ["a"]
