"""SQL that adds lines to transcripts."""

from collections.abc import Sequence

from sqlalchemy import func, select

from app.conversations.records import Transcript, TranscriptEntry, TranscriptState
from app.platform.db import Transaction
from app.platform.postgres.prepared import Prepared
from app.platform.serialization.stored_json import dump_json


async def lock_transcript(tx: Transaction, transcript: Transcript) -> None:
    """Serialize writers of this transcript until the transaction ends, as `append_entries` does by itself."""
    await tx.execute(select(func.pg_advisory_xact_lock(func.hashtext("/".join(transcript)))))


async def append_entries(
    tx: Transaction, transcript: Transcript, entries: Sequence[TranscriptEntry]
) -> TranscriptState:
    """Append lines in this order; skips lines whose `uuid` is already there. Returns what was added.

    Raises `AttemptOver` if the attempt that writes them is over.
    """
    if not entries:
        return TranscriptState()
    lines = {
        "uuids": [entry.line.get("uuid") for entry in entries],
        "run_ids": [entry.run_id for entry in entries],
        "attempts": [entry.attempt for entry in entries],
        "entries": [dump_json(entry.line) for entry in entries],
        "objects": [",".join(sorted(entry.objects)) or None for entry in entries],
    }
    given = {**transcript._asdict(), "name": "/".join(transcript), **lines}
    added = await _APPEND.fetch(tx, given)
    last = max((row["position"] for row in added), default=0)
    return TranscriptState(len(added), sum(row["bytes"] for row in added), last)


# A line gets its position once the lock is there.
_APPEND = Prepared(
    """
    INSERT INTO session_entries
           (project_key, session_id, subpath, entry_uuid, run_id, attempt, entry, objects)
    SELECT :project_key, :session_id, :subpath, line.uuid, line.run_id, line.attempt, line.entry,
           string_to_array(line.objects, ',')
      FROM pg_advisory_xact_lock(hashtext(:name)),
           unnest(CAST(:uuids AS text[]), CAST(:run_ids AS text[]), CAST(:attempts AS int[]),
                  CAST(CAST(:entries AS text[]) AS json[]), CAST(:objects AS text[]))
           WITH ORDINALITY AS line (uuid, run_id, attempt, entry, objects, place)
     ORDER BY line.place
        ON CONFLICT DO NOTHING
    RETURNING position, bytes
    """
)
