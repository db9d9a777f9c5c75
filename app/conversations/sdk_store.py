"""The SDK's SessionStore on PostgreSQL: transcripts that any server process can go on with.

The classes do not name the SDK's protocol as their base: it would have them inherit methods that
are not there, and the SDK looks which are.
"""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    fork_session_via_store,
)

from app.conversations.repository import (
    Conversation,
    Transcript,
    append_entries,
    delete_entries,
    load_entries,
    lock_transcript,
    subpaths_of,
    transcripts_of,
)
from app.conversations.transcript import TranscriptEntry
from app.db import Database
from app.ids import RunKey


class PostgresSessionStore:
    """Keeps transcripts as the SDK writes them; passes the SDK's own conformance suite."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """See the SDK. Raises `DatabaseUnavailable`; trying again adds nothing twice."""
        await self.add(
            _transcript(key), [TranscriptEntry(cast("dict[str, Any]", entry), None) for entry in entries]
        )

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """See the SDK."""
        entries = await self.entries(_transcript(key))
        return [cast("SessionStoreEntry", entry.line) for entry in entries] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """See the SDK."""
        async with self._database.snapshot() as reader:
            found = await transcripts_of(reader, project_key)
        return [
            SessionStoreListEntry(session_id=session_id, mtime=int(written.timestamp() * 1000))
            for session_id, written in found
        ]

    async def delete(self, key: SessionKey) -> None:
        """See the SDK."""
        async with self._database.transaction() as tx:
            await delete_entries(tx, _transcript(key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """See the SDK."""
        async with self._database.snapshot() as reader:
            return await subpaths_of(reader, key["project_key"], key["session_id"])

    async def add(self, transcript: Transcript, entries: Sequence[TranscriptEntry]) -> None:
        """Append entries together with the runs that said them."""
        async with self._database.transaction() as tx:
            await lock_transcript(tx, transcript)
            await append_entries(tx, transcript, entries)

    async def entries(self, transcript: Transcript) -> list[TranscriptEntry]:
        """Every entry together with the run that said it."""
        async with self._database.snapshot() as reader:
            return await load_entries(reader, transcript)

    async def fork(self, conversation: Conversation, *, up_to_entry: str) -> UUID:
        """Copy a session's transcript up to an entry under a session id of its own, which it returns."""
        both = cast("SessionStore", _Copying(self, conversation.transcript))
        copy = await fork_session_via_store(both, str(conversation.session_id), up_to_message_id=up_to_entry)
        return UUID(copy.session_id)


class RunSessionStore:
    """What the SDK sees of a store while it carries one run: it writes, and reads nothing.

    The SDK names projects by directories, and every run has its own: here the project is the
    account. What came before lies in the CLI's own directory already.
    """

    def __init__(self, store: PostgresSessionStore, run: RunKey) -> None:
        self._store = store
        self._run = run

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep what was said, under the run that said it."""
        transcript = _transcript(key)._replace(project_key=str(self._run.account_id))
        said = [TranscriptEntry(cast("dict[str, Any]", entry), self._run.run_id) for entry in entries]
        await self._store.add(transcript, said)

    async def load(self, key: SessionKey) -> None:  # noqa: ARG002 - the SDK's signature
        """Nothing: see the class."""
        return


class _Copying:
    """One session to read and its copy to write, whatever project the SDK takes them for.

    The copies get ids of their own, so the runs that said them are found by what each is a copy of.
    """

    def __init__(self, store: PostgresSessionStore, source: Transcript) -> None:
        self._store = store
        self._source = source
        self._said_by: dict[str, str | None] = {}

    async def load(self, key: SessionKey) -> list[SessionStoreEntry]:  # noqa: ARG002 - the SDK's signature
        entries = await self._store.entries(self._source)
        self._said_by = {entry.line["uuid"]: entry.run_id for entry in entries if "uuid" in entry.line}
        return [cast("SessionStoreEntry", entry.line) for entry in entries]

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        lines = [cast("dict[str, Any]", entry) for entry in entries]
        copies = [TranscriptEntry(line, self._said_by.get(_original(line))) for line in lines]
        await self._store.add(_transcript(key)._replace(project_key=self._source.project_key), copies)


def _original(line: dict[str, Any]) -> str:
    copied: dict[str, str] = line.get("forkedFrom") or {}
    return copied.get("messageUuid", "")


def _transcript(key: SessionKey) -> Transcript:
    return Transcript(key["project_key"], key["session_id"], key.get("subpath") or "")
