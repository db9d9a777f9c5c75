"""TranscriptStore: transcripts in PostgreSQL, so any server process can continue a conversation.

Long strings that users have attached and tools have returned are kept outside the database, where an operator
wants that; what the model says stays in it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from uuid import UUID

import structlog

from app.conversations.cuts.answer_cuts import without_cut
from app.conversations.lines.repository import append_entries, lock_transcript
from app.conversations.records import Conversation, Transcript, TranscriptEntry, TranscriptState
from app.conversations.repository import load_entries, sessions_of, transcript_state
from app.errors import Unavailable
from app.ids import AccountId
from app.platform.background import first_of
from app.platform.db import Database, DatabaseUnavailable
from app.platform.objects.documents import ContentsMissing, extracted
from app.platform.objects.service import INSIDE, Objects

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

_LINES_PER_STATEMENT: Final = 128
"""The event loop stands still while the values of a statement are encoded."""


@dataclass(slots=True)
class TranscriptStore:
    """Stores lines as the SDK or the Messages API writes them."""

    database: Database
    objects: Objects = INSIDE
    retry_s: float = 1.0
    """The time between two tries."""
    save_s: float = 30.0
    """How long lines wait that the database does not keep from being stored, or in a process that stops."""

    async def add(self, transcript: Transcript, entries: Sequence[TranscriptEntry]) -> TranscriptState:
        """Append lines after what is stored outside was written; returns what was added.

        A repeated one is not added twice. Raises `AttemptOver`, `ContentsUnavailable` and
        `DatabaseUnavailable`.
        """
        entries = await self._write(transcript, entries)
        hashes = _hashes_of(entries)
        if not hashes and len(entries) <= _LINES_PER_STATEMENT:
            async with self.database.write() as tx:
                return await append_entries(tx, transcript, entries)
        added = TranscriptState()
        async with self.database.transaction() as tx:
            await lock_transcript(tx, transcript)
            if hashes:
                await self.objects.hold(tx, _account(transcript), hashes)
            for start in range(0, len(entries), _LINES_PER_STATEMENT):
                some = entries[start : start + _LINES_PER_STATEMENT]
                added = added.plus(await append_entries(tx, transcript, some))
        return added

    async def persist(self, store: Callable[[], Awaitable[object]], closing: asyncio.Event) -> bool:
        """Store something as soon as the database is there; returns whether it was `in_time`."""
        refused = asyncio.Event()

        async def repeat() -> None:
            while True:
                try:
                    await store()
                except Unavailable as error:
                    if not isinstance(error, DatabaseUnavailable):
                        refused.set()
                    log.warning("transcript.save_failed", reason=error.detail)
                    await asyncio.sleep(self.retry_s)
                else:
                    return

        return await self.in_time(repeat(), closing=closing, refused=refused)

    async def in_time(
        self,
        saving: Coroutine[Any, Any, None] | asyncio.Task[None],
        *,
        closing: asyncio.Event,
        refused: asyncio.Event,
    ) -> bool:
        """Wait for the database, without which a run cannot end either; False if that is in vain.

        For `save_s` only once the process stops (`closing`), or something else was away (`refused`).
        """

        async def give_up() -> None:
            await first_of(closing.wait(), refused.wait())
            await asyncio.sleep(self.save_s)

        first = await first_of(saving, give_up())
        return first is not None and first.index == 0

    async def entries(self, transcript: Transcript) -> Sequence[TranscriptEntry]:
        """Every line together with the run that wrote it, without what is cut from answers.

        Raises `ContentsUnavailable`, `ContentLost`.
        """
        return (await self.read(transcript))[0]

    async def read(self, transcript: Transcript) -> tuple[Sequence[TranscriptEntry], TranscriptState]:
        """The same, and the state of the transcript."""
        stored = await load_entries(self.database, transcript)
        last = stored[-1].position if stored else 0
        state = TranscriptState(len(stored), sum(each.bytes for each in stored), last)
        return without_cut(await self._whole(transcript, [each.entry for each in stored])), state

    async def state(self, transcript: Transcript) -> TranscriptState:
        async with self.database.read() as reader:
            return await transcript_state(reader, transcript)

    async def undeleted(self, conversations: Collection[Conversation]) -> set[UUID]:
        """The session ids of those of these conversations that were not deleted."""
        keys = {(each.account_id, each.state_key) for each in conversations}
        async with self.database.snapshot() as reader:
            return await sessions_of(reader, keys) & {each.session_id for each in conversations}

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

    async def _whole(
        self, transcript: Transcript, entries: Sequence[TranscriptEntry]
    ) -> Sequence[TranscriptEntry]:
        if not (hashes := _hashes_of(entries)):
            return entries
        contents = await self.objects.read(_account(transcript), hashes)
        return await asyncio.to_thread(lambda: [entry.whole(contents) for entry in entries])

    async def _write(
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
