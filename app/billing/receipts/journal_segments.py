"""Segments: the files of a journal, and how those of a process that died are read."""

import errno
import fcntl
import os
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from filelock import FileLock

from app.billing.receipts.journal_records import JournalReader, SegmentDamage

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Segment:
    """A file of a journal."""

    path: Path
    lock: FileLock
    pending: set[str] = field(default_factory=set)
    """Keys of facts in this segment that are not acknowledged, and in no later segment."""
    is_damaged: bool = False
    size: int = 0
    """In bytes."""


def is_written(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_segment(segment: Segment, reader: JournalReader) -> Segment:
    """Read a segment of a process that died; one that the disk cannot read is damaged."""
    try:
        content = segment.path.read_bytes()
        damage = reader.read(content)
    except OSError as error:
        if error.errno != errno.EIO:
            # It may be readable later.
            raise
        log.critical("journal.unreadable", process=segment.path.name, reason=error.strerror)
        segment.is_damaged = True
        return segment
    segment.size, segment.is_damaged = len(content), bool(damage)
    _log_damage(segment.path.name, damage)
    return segment


def _log_damage(path: str, damage: SegmentDamage) -> None:
    if damage.unreadable_lines or damage.lost:
        log.critical("journal.damaged", path=path, lines=damage.unreadable_lines, lost=damage.lost)
    for record in damage.invalid:
        log.critical("journal.record_invalid", path=path, record=record)
    if damage.torn_bytes:
        log.warning("journal.record_torn", path=path, bytes=damage.torn_bytes)
