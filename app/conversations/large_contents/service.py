"""LargeContents: keeps long strings of transcripts outside the database, where an operator wants that."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from uuid import UUID

from app.conversations.lines.repository import append_entries, lock_transcript
from app.conversations.records import Transcript, TranscriptEntry, TranscriptState
from app.conversations.repository import load_entries
from app.ids import AccountId
from app.platform.db import Database, Transaction
from app.platform.objects.documents import ContentsMissing, extracted
from app.platform.objects.service import INSIDE, Objects

Result = TypeVar("Result")

_LINES_PER_STATEMENT: Final = 128
"""The event loop stands still while the values of a statement are encoded."""


@dataclass(frozen=True, slots=True)
class LargeContents:
    """What users have attached and tools have returned; what the model says stays in the database."""

    objects: Objects = INSIDE

    async def add(
        self, database: Database, transcript: Transcript, entries: Sequence[TranscriptEntry]
    ) -> TranscriptState:
        """Append lines after what is stored outside was written; returns what was added.

        A repeated one is not added twice. Raises `AttemptOver`, `ContentsUnavailable` and
        `DatabaseUnavailable`.
        """
        entries = await self.write(transcript, entries)
        if not _hashes_of(entries) and len(entries) <= _LINES_PER_STATEMENT:
            async with database.write() as tx:
                return await append_entries(tx, transcript, entries)
        async with database.transaction() as tx:
            return await self.append(tx, transcript, entries)

    async def append(
        self, tx: Transaction, transcript: Transcript, written: Sequence[TranscriptEntry]
    ) -> TranscriptState:
        """The same of what `write` has returned, in the caller's transaction."""
        added = TranscriptState()
        await lock_transcript(tx, transcript)
        if hashes := _hashes_of(written):
            await self.objects.hold(tx, _account(transcript), hashes)
        for start in range(0, len(written), _LINES_PER_STATEMENT):
            some = written[start : start + _LINES_PER_STATEMENT]
            added = added.plus(await append_entries(tx, transcript, some))
        return added

    async def read(
        self, database: Database, transcript: Transcript
    ) -> tuple[Sequence[TranscriptEntry], TranscriptState]:
        """All entries, and the state of the transcript; raises `ContentsUnavailable`, `ContentLost`."""
        stored = await load_entries(database, transcript)
        last = stored[-1].position if stored else 0
        state = TranscriptState(len(stored), sum(each.bytes for each in stored), last)
        entries = [each.entry for each in stored]
        if not (hashes := _hashes_of(entries)):
            return entries, state
        contents = await self.objects.read(_account(transcript), hashes)
        return await asyncio.to_thread(lambda: [entry.whole(contents) for entry in entries]), state

    async def completed(
        self, account_id: AccountId, read: Callable[[dict[str, bytes]], Awaitable[Result]]
    ) -> Result:
        """The result of `read` once it has all contents: it raises `ContentsMissing` until then.

        So no connection to the database is kept while contents are read.
        """
        contents: dict[str, bytes] = {}
        while True:
            try:
                return await read(contents)
            except ContentsMissing as missing:
                contents |= await self.objects.read(account_id, missing.hashes)

    async def write(
        self, transcript: Transcript, entries: Sequence[TranscriptEntry]
    ) -> Sequence[TranscriptEntry]:
        """Write what is stored outside; returns the lines for the database."""
        if not self.objects.are_outside:
            return entries
        stored, contents = await asyncio.to_thread(_extracted, entries)
        if contents:
            await self.objects.write(_account(transcript), contents)
        return stored


def _extracted(entries: Sequence[TranscriptEntry]) -> tuple[list[TranscriptEntry], dict[str, bytes]]:
    stored: list[TranscriptEntry] = []
    contents: dict[str, bytes] = {}
    for entry in entries:
        line: dict[str, Any] = entry.line
        found: dict[str, bytes] = {}
        if line.get("type") == "user":
            line, found = extracted(line)
        contents |= found
        stored.append(replace(entry, line=line, objects=found.keys()) if found else entry)
    return stored, contents


def _hashes_of(entries: Sequence[TranscriptEntry]) -> set[str]:
    return {sha256 for entry in entries for sha256 in entry.objects}


def _account(transcript: Transcript) -> AccountId:
    return AccountId(UUID(transcript.project_key))
