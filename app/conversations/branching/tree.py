"""BranchTree: which runs follow each other on the branches of a conversation; pure."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from uuid import UUID

from app.conversations.branching.records import Branch, BranchRun, PassedOn
from app.ids import RunId


class BranchTree:
    """The branches of one conversation. A run is on exactly one of them, and in the paths of its forks."""

    def __init__(
        self,
        branches: Iterable[Branch],
        runs: Iterable[BranchRun],
        *,
        inherited: Sequence[BranchRun] = (),
    ) -> None:
        """`runs` in the order of their turns; `inherited`: those copied from another conversation."""
        self.branches = {branch.session_id: branch for branch in branches}
        (self.first,) = (branch for branch in self.branches.values() if not branch.is_forked)
        self._own: dict[UUID, list[RunId]] = {session_id: [] for session_id in self.branches}
        self._branch_of: dict[RunId, UUID] = {}
        self._message_ids: dict[RunId, str | None] = {}
        self.passed_on: dict[str, Sequence[PassedOn]] = {}
        """The messages of earlier runs that those of these runs begin with."""
        self._unsuccessful: set[RunId] = set()
        self._inherited = frozenset(run.run_id for run in inherited)
        first = self.first.session_id
        placed = [*((first, run) for run in inherited), *((run.session_id or first, run) for run in runs)]
        for session_id, run in placed:
            if session_id in self._own:
                self._own[session_id].append(run.run_id)
                self._branch_of[run.run_id] = session_id
                self._message_ids[run.run_id] = run.message_id
                if run.passed_on:
                    self.passed_on[run.run_id] = run.passed_on
                if not run.has_succeeded:
                    self._unsuccessful.add(run.run_id)

    def __contains__(self, run_id: RunId) -> bool:
        return run_id in self._branch_of

    def branch_of(self, run_id: RunId) -> UUID:
        """The branch on which a run is; its transcript contains the whole path to the run."""
        return self._branch_of[run_id]

    def own_runs(self, session_id: UUID) -> Sequence[RunId]:
        """The runs of a branch that neither an earlier branch nor the original conversation has, in order."""
        return [run_id for run_id in self._own[session_id] if run_id not in self._inherited]

    def path(self, session_id: UUID) -> list[RunId]:
        """All runs of a branch, from the beginning of the conversation."""
        parts: list[list[RunId]] = [self._own[session_id]]
        last = self.branches[session_id].forked_from_run
        # A loop: a conversation may have been forked from forks a thousand times.
        while last is not None:
            session_id = self._branch_of[last]
            own = self._own[session_id]
            parts.append(own[: own.index(last) + 1])
            last = self.branches[session_id].forked_from_run
        return [run_id for part in reversed(parts) for run_id in part]

    def path_to(self, run_id: RunId | None) -> list[RunId]:
        """The runs up to and including this one."""
        if run_id is None:
            return []
        path = self.path(self._branch_of[run_id])
        return path[: path.index(run_id) + 1]

    def last_unsuccessful(self, path: Sequence[RunId]) -> list[RunId]:
        return list(takewhile(self._unsuccessful.__contains__, reversed(path)))[::-1]

    def head(self, session_id: UUID) -> RunId | None:
        own = self._own[session_id]
        return own[-1] if own else self.branches[session_id].forked_from_run

    def run_before(self, run_id: RunId) -> RunId | None:
        """The run that this one follows; None for the first."""
        return next(iter(reversed(self.path_to(run_id)[:-1])), None)

    def known(self, message_ids: Iterable[str], *, current: UUID) -> dict[str, RunId]:
        """Those of these ids that name a message of the conversation, and its run.

        A run's own id names its answer. Of several answers to one message it is that on the current branch,
        or else the newest one.
        """
        on_current = self.path(current)
        others = self._branch_of.keys() - set(on_current)
        ordered = [*(run_id for run_id in self._branch_of if run_id in others), *on_current]
        by_message = {
            message_id: run_id for run_id in ordered if (message_id := self._message_ids[run_id]) is not None
        }
        by_run = {str(run_id): run_id for run_id in ordered}
        found = {
            each: by_run.get(each) or by_message.get(each) or by_run.get(each.partition("/")[0])
            for each in message_ids
        }
        return {each: run_id for each, run_id in found.items() if run_id is not None}

    def answers_to(self, message_id: str) -> list[RunId]:
        return [run_id for run_id, answered in self._message_ids.items() if answered == message_id]


def user_message_id(run_id: str) -> str:
    """The id of the message that a run answers, where its client has given none. Run ids have no slash."""
    return f"{run_id}/user"


def later_message_id(run_id: str, line_id: str) -> str:
    """The id of a message that a user has sent to a run while it was active."""
    return f"{run_id}/{line_id}"


def imported_message_id(run_id: str, line_id: str) -> str:
    """The id of a message from before the conversation; it belongs to no run."""
    return f"earlier/{run_id}/{line_id}"


def is_imported(message_id: str) -> bool:
    return message_id.startswith("earlier/")
