"""The data of branches, and where a run belongs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from app.conversations.records import Conversation
from app.ids import RunId


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch: a transcript of its own, which began as a copy of another one's beginning."""

    session_id: UUID
    is_forked: bool
    """Whether it is not the conversation's first branch."""
    forked_from_run: RunId | None
    """The last run that it has in common with an earlier branch; None: it has none."""
    created_at: datetime

    @classmethod
    def only_one(cls, conversation: Conversation) -> "Branch":
        return cls(conversation.session_id, False, None, conversation.created_at)


@dataclass(frozen=True, slots=True)
class PassedOn:
    """The message of a run that ended before the model got it, as the beginning of a later run's message."""

    run_id: RunId
    parts: int
    """How many content blocks it has there."""


@dataclass(frozen=True, slots=True)
class BranchRun:
    """A run as a part of its branch."""

    run_id: RunId
    session_id: UUID | None
    """Its branch; None for runs from before conversations had branches, which are on the first."""
    message_id: str | None
    """The client's id of the message that it answers."""
    has_succeeded: bool = True
    passed_on: Sequence[PassedOn] = ()
    """The messages that its own begins with, oldest first."""


@dataclass(frozen=True, slots=True)
class After:
    """The place right after a run, on any branch; None: at the beginning of the conversation."""

    run_id: RunId | None


@dataclass(frozen=True, slots=True)
class InPlaceOf:
    """The place of a run: the new one follows the one before it."""

    run_id: RunId


Place: TypeAlias = After | InPlaceOf
"""Where in its conversation a run belongs; a branch is created where another run is already there."""
