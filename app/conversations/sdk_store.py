"""PostgresSessionStore: the SDK's transcripts in PostgreSQL, so any server process can resume a session.

The classes that the SDK gets do not inherit from its protocol: they would inherit methods that they do not
implement, and the SDK checks which methods exist.
"""

from collections.abc import Collection, Sequence
from typing import Any, cast
from uuid import UUID

from claude_agent_sdk import (
    SessionKey,
    SessionStore,
    SessionStoreEntry,
    fork_session_via_store,
)

from app.conversations.cuts.answer_cuts import without_cut
from app.conversations.large_contents.service import LargeContents
from app.conversations.records import (
    Conversation,
    EntryGone,
    Transcript,
    TranscriptCopy,
    TranscriptEntry,
    TranscriptState,
)
from app.conversations.repository import sessions_of, transcript_state
from app.ids import RunKey
from app.platform.db import Database
from app.platform.objects.service import INSIDE, Objects


class PostgresSessionStore:
    """Stores transcripts as the SDK writes them."""

    def __init__(self, database: Database, objects: Objects = INSIDE) -> None:
        self._database = database
        self.contents = LargeContents(objects)

    async def add(self, transcript: Transcript, entries: Sequence[TranscriptEntry]) -> TranscriptState:
        return await self.contents.add(self._database, transcript, entries)

    async def entries(self, transcript: Transcript) -> Sequence[TranscriptEntry]:
        """Every entry together with the run that wrote it, without what is cut from answers."""
        return (await self.read(transcript))[0]

    async def read(self, transcript: Transcript) -> tuple[Sequence[TranscriptEntry], TranscriptState]:
        """Every entry, without what is cut from answers; and the state of the transcript."""
        entries, state = await self.contents.read(self._database, transcript)
        return without_cut(entries), state

    async def state(self, transcript: Transcript) -> TranscriptState:
        async with self._database.read() as reader:
            return await transcript_state(reader, transcript)

    async def undeleted(self, conversations: Collection[Conversation]) -> set[UUID]:
        """The session ids of those of these conversations that were not deleted."""
        keys = {(each.account_id, each.state_key) for each in conversations}
        async with self._database.snapshot() as reader:
            return await sessions_of(reader, keys) & {each.session_id for each in conversations}

    async def fork(self, conversation: Conversation, up_to_entry: str) -> TranscriptCopy:
        """Copy a session's transcript up to an entry, without storing the copy. Raises `EntryGone`."""
        both = _ForkStore(self, conversation.transcript)
        session = str(conversation.session_id)
        try:
            copy = await fork_session_via_store(
                cast("SessionStore", both), session, up_to_message_id=up_to_entry
            )
        except (FileNotFoundError, ValueError) as error:
            # Of an empty session, and of one without the entry.
            raise EntryGone from error
        return TranscriptCopy(UUID(copy.session_id), both.copies)


class CliSessionStore:
    """The SDK's session store of one CLI process: it only writes, and only for the run that is attached.

    The SDK names projects by directories, and every process has its own directory: here the project is the
    account. The earlier transcript is already in the CLI's directory. The CLI may have been started before
    its conversation was known, with a session id of its own.
    """

    def __init__(self, store: PostgresSessionStore, cli_session: UUID) -> None:
        self._store = store
        self._cli_session = str(cli_session)
        self._attached: tuple[Transcript, RunKey, int] | None = None
        self.state = TranscriptState()
        """The transcript's state if nothing else has written to it."""
        self.unexpected = False
        """Whether the CLI wrote a message while no run was attached."""

    def attach(self, transcript: Transcript, run: RunKey, attempt: int, *, state: TranscriptState) -> None:
        """Append to this transcript, for this attempt of a run; `state` is the transcript's state now."""
        self._attached, self.state = (transcript, run, attempt), state

    def detach(self) -> None:
        """Append nothing until the next run."""
        self._attached = None

    def stored(self, line: dict[str, Any]) -> dict[str, Any]:
        """A line of the CLI as it is stored: under the conversation's session id."""
        if self._attached is None or line.get("sessionId") != self._cli_session:
            return line
        return {**line, "sessionId": self._attached[0].session_id}

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        lines = [cast("dict[str, Any]", entry) for entry in entries]
        if self._attached is None:
            self.unexpected |= any("uuid" in line for line in lines)
            return
        transcript, run, attempt = self._attached
        new = [TranscriptEntry(self.stored(line), run.run_id, attempt) for line in lines]
        subpath = key.get("subpath") or ""
        added = await self._store.add(transcript._replace(subpath=subpath), new)
        if not subpath:
            self.state = self.state.plus(added)

    async def load(self, key: SessionKey) -> None:  # noqa: ARG002 - the SDK's signature
        """Return nothing: see the class."""
        return


class _ForkStore:
    """Reads one session and keeps its copy, whatever project the SDK passes.

    The copied entries get new ids, so their runs are found by the id of the entry each was copied from.
    """

    def __init__(self, store: PostgresSessionStore, source: Transcript) -> None:
        self._store = store
        self._source = source
        self._run_of: dict[str, str | None] = {}
        self.copies: list[TranscriptEntry] = []

    async def load(self, key: SessionKey) -> list[SessionStoreEntry]:  # noqa: ARG002 - the SDK's signature
        entries = await self._store.entries(self._source)
        self._run_of = {entry.line["uuid"]: entry.run_id for entry in entries if "uuid" in entry.line}
        return [cast("SessionStoreEntry", entry.line) for entry in entries]

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:  # noqa: ARG002 - the SDK's signature
        lines = (cast("dict[str, Any]", entry) for entry in entries)
        self.copies += [TranscriptEntry(line, self._run_of.get(_original(line))) for line in lines]


def _original(line: dict[str, Any]) -> str:
    copied: dict[str, str] = line.get("forkedFrom") or {}
    return copied.get("messageUuid", "")
