"""MessageStore: the transcripts of conversations with the Messages API."""

from collections.abc import Sequence

from app.conversations.cuts.answer_cuts import without_cut
from app.conversations.large_contents.service import LargeContents
from app.conversations.records import Transcript, TranscriptEntry
from app.conversations.repository import load_entries
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
        async with self._database.snapshot() as reader:
            entries = await load_entries(reader, transcript)
        return without_cut(await self._contents.whole(transcript, entries))
