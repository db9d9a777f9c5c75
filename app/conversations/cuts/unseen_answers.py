"""Leaves out of a transcript what the user has not seen of the last answer."""

import asyncio

from app.conversations.cuts.answer_cuts import ShownAnswer, cut_line, text_of
from app.conversations.lines.repository import append_entries, lock_transcript
from app.conversations.records import Transcript, TranscriptEntry
from app.conversations.repository import entries_of_run
from app.platform.db import Database


async def leave_out_unseen(database: Database, transcript: Transcript, shown: ShownAnswer) -> None:
    """Before a turn begins: the answer before it ends where its client has stopped reading.

    Nothing if the client has all of it. Raises `DatabaseUnavailable`.
    """
    async with database.transaction() as tx:
        await lock_transcript(tx, transcript)
        entries = await entries_of_run(tx, transcript, shown.run_id)
        if not await asyncio.to_thread(lambda: shown.lacks_some_of(text_of(entries))):
            return
        # Of no run: copies up to the answer do not have it.
        await append_entries(tx, transcript, [TranscriptEntry(cut_line(entries, shown), None)])
