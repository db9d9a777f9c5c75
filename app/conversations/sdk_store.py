"""PostgresSessionStore: the SDK's SessionStore on PostgreSQL, so any server process can resume a session.

The classes do not inherit from the SDK's protocol: they would inherit methods that they do not
implement, and the SDK checks which methods exist.
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

from app.conversations.records import Conversation, Transcript, TranscriptEntry
from app.conversations.repository import (
    append_entries,
    delete_entries,
    load_entries,
    lock_transcript,
    subpaths_of,
    transcripts_of,
)
from app.db import Database
from app.ids import RunKey


class PostgresSessionStore:
    """Stores transcripts as the SDK writes them; passes the SDK's own conformance suite."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """See the SDK. Raises `DatabaseUnavailable`; a retry appends nothing twice."""
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
        """Append entries together with the runs that wrote them."""
        async with self._database.transaction() as tx:
            await lock_transcript(tx, transcript)
            await append_entries(tx, transcript, entries)

    async def entries(self, transcript: Transcript) -> list[TranscriptEntry]:
        """Every entry together with the run that wrote it."""
        async with self._database.snapshot() as reader:
            return await load_entries(reader, transcript)

    async def fork(self, conversation: Conversation, *, up_to_entry: str) -> UUID:
        """Copy a session's transcript up to an entry; returns the copy's session id."""
        both = cast("SessionStore", _ForkStore(self, conversation.transcript))
        copy = await fork_session_via_store(both, str(conversation.session_id), up_to_message_id=up_to_entry)
        return UUID(copy.session_id)


class RunSessionStore:
    """The SDK's session store during one run: it only writes.

    The SDK names projects by directories, and every run has its own directory: here the project is the
    account. The earlier transcript is already in the CLI's directory.
    """

    def __init__(self, store: PostgresSessionStore, run: RunKey) -> None:
        self._store = store
        self._run = run

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries for this run."""
        transcript = _transcript(key)._replace(project_key=str(self._run.account_id))
        new = [TranscriptEntry(cast("dict[str, Any]", entry), self._run.run_id) for entry in entries]
        await self._store.add(transcript, new)

    async def load(self, key: SessionKey) -> None:  # noqa: ARG002 - the SDK's signature
        """Return nothing: see the class."""
        return


class _ForkStore:
    """Reads one session and writes its copy, whatever project the SDK passes.

    The copied entries get new ids, so their runs are found by the id of the entry each was copied from.
    """

    def __init__(self, store: PostgresSessionStore, source: Transcript) -> None:
        self._store = store
        self._source = source
        self._run_of: dict[str, str | None] = {}

    async def load(self, key: SessionKey) -> list[SessionStoreEntry]:  # noqa: ARG002 - the SDK's signature
        entries = await self._store.entries(self._source)
        self._run_of = {entry.line["uuid"]: entry.run_id for entry in entries if "uuid" in entry.line}
        return [cast("SessionStoreEntry", entry.line) for entry in entries]

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        lines = [cast("dict[str, Any]", entry) for entry in entries]
        copies = [TranscriptEntry(line, self._run_of.get(_original(line))) for line in lines]
        await self._store.add(_transcript(key)._replace(project_key=self._source.project_key), copies)


def _original(line: dict[str, Any]) -> str:
    copied: dict[str, str] = line.get("forkedFrom") or {}
    return copied.get("messageUuid", "")


def _transcript(key: SessionKey) -> Transcript:
    return Transcript(key["project_key"], key["session_id"], key.get("subpath") or "")
