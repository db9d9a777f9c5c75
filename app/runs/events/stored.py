"""The events of a run that are not stored yet: those since it was last parked."""

from collections.abc import Sequence

from app.ids import RunKey
from app.platform.db import Reader
from app.runs.repository import last_stored_position
from app.streams.port import LogEntry


async def unstored_entries(reader: Reader, run: RunKey, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
    """The entries after the last one that is stored."""
    last = await last_stored_position(reader, run) or 0
    return [entry for entry in entries if entry.position > last]
