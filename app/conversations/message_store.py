"""MessageStore: the transcripts of conversations with the Messages API."""

from collections.abc import Sequence
from uuid import uuid4

from app.conversations.cuts.answer_cuts import without_cut
from app.conversations.large_contents.service import LargeContents
from app.conversations.neutral_transcript import copied_line
from app.conversations.records import Conversation, EntryGone, Transcript, TranscriptCopy, TranscriptEntry
from app.platform.db import Database
from app.platform.objects.service import INSIDE, Objects


class MessageStore:
    """Stores lines in the same tables as the transcripts of the SDK."""

    def __init__(self, database: Database, objects: Objects = INSIDE) -> None:
        self._database = database
        self._contents = LargeContents(objects)

    async def add(self, transcript: Transcript, entries: Sequence[TranscriptEntry]) -> None:
        await self._contents.add(self._database, transcript, entries)

    async def entries(self, transcript: Transcript) -> Sequence[TranscriptEntry]:
        """Every line together with the run that wrote it, without what is cut from answers."""
        entries, _ = await self._contents.read(self._database, transcript)
        return without_cut(entries)

    async def fork(self, conversation: Conversation, up_to_entry: str) -> TranscriptCopy:
        """Copy a transcript up to a line, without storing the copy. Raises `EntryGone`."""
        entries = await self.entries(conversation.transcript)
        ids = [entry.line.get("uuid") for entry in entries]
        if up_to_entry not in ids:
            raise EntryGone
        copied = entries[: ids.index(up_to_entry) + 1]
        lines = [TranscriptEntry(copied_line(entry.line), entry.run_id) for entry in copied]
        return TranscriptCopy(uuid4(), lines)
