"""The data of conversations and their transcripts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid5

from app.ids import AccountId, RunId, new_uuid
from app.platform.objects.documents import ContentsMissing, restored


class Transcript(NamedTuple):
    """The key of a transcript: a session's own (`subpath` empty) or one of its subagents'."""

    project_key: str
    session_id: str
    subpath: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation's row."""

    account_id: AccountId
    state_key: str
    session_id: UUID
    """The branch; that which is continued, where nothing else is requested."""
    title: str | None
    """The beginning of its first question, until it is renamed; None if unknown."""
    turns: int
    forked_from: str | None
    forked_at: str | None
    created_at: datetime
    updated_at: datetime
    executor: str
    """The provider in the ids of its graphs: only their executor can read its transcript.

    Empty if its first run is to decide that.
    """
    pinned: bool = False
    archived: bool = False
    branches: int = 1
    """How many branches it has; known where it was looked up."""
    managed: Mapping[str, Any] | None = None
    """What the runs of a session of Managed Agents have; None of any other conversation."""
    deployment_id: str | None = None
    """The deployment of Managed Agents that has begun it."""
    opening: Mapping[str, Any] | None = None
    """What a client has created it with, over OpenAI's API; None of any other conversation."""
    found_in_run: RunId | None = None
    """The newest run with the words that were searched for; None: they are in the title."""

    @classmethod
    def without_runs(
        cls,
        account_id: AccountId,
        prefix: str,
        *,
        executor: str = "",
        title: str | None = None,
        managed: Mapping[str, Any] | None = None,
        opening: Mapping[str, Any] | None = None,
    ) -> Self:
        """One that a client creates before its first run, under a new key with this prefix."""
        now = datetime.now(UTC)
        return cls(
            account_id=account_id,
            state_key=f"{prefix}{new_uuid().hex}",
            session_id=new_uuid(),
            title=title,
            turns=0,
            forked_from=None,
            forked_at=None,
            created_at=now,
            updated_at=now,
            executor=executor,
            managed=managed,
            opening=opening,
        )

    @property
    def branch_id(self) -> UUID:
        """Names its branch to clients, which do not learn the names of transcripts."""
        return uuid5(self.account_id, str(self.session_id))

    @property
    def transcript(self) -> Transcript:
        """The key of its transcript."""
        return Transcript(str(self.account_id), str(self.session_id))


class NewTurn(NamedTuple):
    """A turn to take, and what the conversation begins with if there is none with this key."""

    state_key: str
    title: str | None
    executor: str
    session_id: UUID


@dataclass(frozen=True, slots=True)
class ConversationChange:
    """What changes of a conversation; None stays as it is."""

    title: str | None = None
    pinned: bool | None = None
    archived: bool | None = None


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """A line of a transcript as the SDK wrote it, and its run."""

    line: dict[str, Any]
    run_id: str | None
    attempt: int | None = None
    """The run's attempt that writes it: refused once another process has taken the run over. None: a copy."""
    objects: Collection[str] = ()
    """The SHA-256 of its strings that are stored outside the database and are marks here."""

    def whole(self, contents: Mapping[str, bytes]) -> "TranscriptEntry":
        """The same with these strings; raises `ContentsMissing`."""
        if not self.objects:
            return self
        if missing := [sha256 for sha256 in self.objects if sha256 not in contents]:
            raise ContentsMissing(missing)
        own = {sha256: contents[sha256] for sha256 in self.objects}
        return replace(self, line=restored(self.line, own), objects=())


class TranscriptState(NamedTuple):
    """What two reads of a transcript have in common if it was not changed in between."""

    lines: int = 0
    bytes: int = 0
    last_position: int = 0

    def plus(self, added: "TranscriptState") -> "TranscriptState":
        """The state after these lines were appended."""
        last = max(self.last_position, added.last_position)
        return TranscriptState(self.lines + added.lines, self.bytes + added.bytes, last)


class StoredEntry(NamedTuple):
    """A line of a transcript and its position."""

    position: int
    entry: TranscriptEntry
    bytes: int
    is_last: bool
    """Whether the transcript had no further line when this one was read."""


class TurnBeginning(NamedTuple):
    """What a turn begins with."""

    follows_success: bool
    """Whether the run before it on its branch has succeeded."""
    transcript: TranscriptState
