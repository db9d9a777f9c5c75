"""TranscriptStore: transcripts in PostgreSQL, so any server process can continue a conversation."""

from collections.abc import Collection, Sequence
from uuid import UUID

from app.conversations.cuts.answer_cuts import without_cut
from app.conversations.large_contents.service import LargeContents
from app.conversations.records import Conversation, Transcript, TranscriptEntry, TranscriptState
from app.conversations.repository import load_entries, sessions_of, transcript_state
from app.platform.db import Database
from app.platform.objects.service import INSIDE, Objects


class TranscriptStore:
    """Stores lines as the SDK or the Messages API writes them."""

    def __init__(self, database: Database, objects: Objects = INSIDE) -> None:
        self._database = database
        self.contents = LargeContents(objects)

    async def add(self, transcript: Transcript, entries: Sequence[TranscriptEntry]) -> TranscriptState:
        return await self.contents.add(self._database, transcript, entries)

    async def entries(self, transcript: Transcript) -> Sequence[TranscriptEntry]:
        """Every line together with the run that wrote it, without what is cut from answers."""
        async with self._database.snapshot() as reader:
            entries = await load_entries(reader, transcript)
        return without_cut(await self.contents.whole(transcript, entries))

    async def read(self, transcript: Transcript) -> tuple[Sequence[TranscriptEntry], TranscriptState]:
        """The same, and the state of the transcript."""
        async with self._database.snapshot() as reader:
            state = await transcript_state(reader, transcript)
            entries = await load_entries(reader, transcript) if state.lines else []
        return without_cut(await self.contents.whole(transcript, entries)), state

    async def state(self, transcript: Transcript) -> TranscriptState:
        async with self._database.read() as reader:
            return await transcript_state(reader, transcript)

    async def undeleted(self, conversations: Collection[Conversation]) -> set[UUID]:
        """The session ids of those of these conversations that were not deleted."""
        keys = {(each.account_id, each.state_key) for each in conversations}
        async with self._database.snapshot() as reader:
            return await sessions_of(reader, keys) & {each.session_id for each in conversations}
